"""Amazon Bedrock's Converse: one wire for the models of many makers."""
