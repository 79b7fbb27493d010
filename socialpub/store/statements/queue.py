"""Jobs: leases that are held by their number of claims."""

STANDS = "SELECT 1 FROM job WHERE key = ? AND claims = ?"
FINISH = "DELETE FROM job WHERE key = ? AND claims = ?"
AGAIN = "UPDATE job SET visible_at = ?, epoch = NULL WHERE key = ? AND claims = ?"
