"""The control plane of a fabric, as its operator has it: daemons, certificates, REST, virtual ASICs."""
