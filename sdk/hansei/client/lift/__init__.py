"""Made-up environments, memories and agents: do the bullets that hansei serves help a model (`hansei eval lift`)?"""
