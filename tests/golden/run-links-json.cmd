stepcast run pcie-25gbe sc21-1.7b --links --format json
