"""The switch side: intent in CONFIG_DB -> SONiC's QoS tables, served by gNMI."""
