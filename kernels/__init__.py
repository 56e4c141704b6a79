"""Token-mixing and pointwise operators, one folder each: contract, reference, implementations."""
