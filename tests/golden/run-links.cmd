stepcast run dgx-h100-superpod llama3-405b --set topology.fabric.tiers.0.oversubscription=8 --links
