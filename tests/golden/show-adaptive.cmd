stepcast show jean-zay-a100 --set topology.fabric.routing=adaptive --set topology.fabric.efficiency=0.95
