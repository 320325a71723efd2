"""The known programs: ``campaign`` measures the catalogue and keeps it as matrices."""
