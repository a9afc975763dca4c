"""From flow sizes to what hosts and switches are told. Pure: values in, values out."""
