"""From findings to a LoRA config that PEFT provably resolves as printed."""
