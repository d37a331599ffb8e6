"""What may be given: the domains of arguments and hyper-parameters, arrays and where they lie."""
