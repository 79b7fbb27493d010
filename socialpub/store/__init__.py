"""The cellar: tables, the queue on the same file, the one writer. No decisions are taken here."""
