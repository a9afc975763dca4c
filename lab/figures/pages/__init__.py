"""The book's pages, by paper."""
