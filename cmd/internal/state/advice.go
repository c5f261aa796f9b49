package state

// Advice says what to turn when clients are refused for a reason, in a sentence or two for
// whoever is woken by it; "" for a reason that needs nothing.
func Advice(reason string) string {
	switch reason {
	case "queue_age":
		return "The slots are busy for longer than max_wait. Look for slow or blocked statements in pg_stat_activity; more slots help only if the database has cores to spare."
	case "queue_full":
		return "More clients wait than max_waiting allows: more work comes than the slots can end within max_wait. Look for who sends it (SHOW REFUSALS), and for slow statements in pg_stat_activity."
	case "queue_wait":
		return "Who comes now would wait for longer than max_wait, so it is told at once. More work comes than the slots can end: see queue_age."
	case "displaced":
		return "The queue has been standing for a while, so newcomers take the places of those who have waited long. Work of class sheddable goes first: SHOW GUARD says which, SHOW TENANTS who sends it."
	case "deadline":
		return "The answer would have come after the client's deadline, so the statement was not sent. Either the slots are busy for too long (see queue_age), or clients set deadlines that their statements never meet."
	case "attempts":
		return "Clients send the same work for the fourth time. Fewer retries, and with backoff, would help them and the database."
	case "rate":
		return "A client, role or tenant sends more than its [[rate]] allows. SHOW RATES says which rule; the DETAIL says whom it counts."
	case "blocked":
		return "A client has ignored its refusals for so long that it is blocked for a while. SHOW BLOCKS says who and until when; escalation = \"delay\" of its [[rate]] never blocks."
	case "pins":
		return "As many sessions as max_pinned of their workload allows have said LISTEN, or left temporary tables, locks or the like, and so keep a server. SHOW PINS says who; raise max_pinned, or give them a workload with pool_mode = \"session\"."
	case "no_server":
		return "pgweir can't log in to Postgres, or its servers die again and again. Its log has the server's own words (msg=\"login to server failed\"), and so have SHOW UPSTREAMS and the DETAIL of the error."
	case "max_client_conn":
		return "Too many client sessions. Raise max_client_conn (and ulimit -n), or make the applications' pools smaller."
	case "max_clients":
		return "A role or database has as many clients as its max_clients allows. SHOW ROLES and SHOW DATABASES say how many there are; raise it, or make the applications' pools smaller."
	case "max_logins":
		return "More clients log in at once than max_logins allows. A storm passes; else raise it."
	case "login_failures":
		return "Somebody at that address logs in with wrong passwords, again and again. SHOW LOGIN_FAILURES says where; others there wait with them."
	case "auth_query":
		return "Postgres can't be asked about roles. The log has its own words (msg=\"Postgres can't be asked about roles\"); is it running, and may pgweir's role run the auth_query?"
	case "hba":
		return "The hba_file has no rule for a client, or one that rejects it. SHOW HBA has the rules; the error names host, user, database and encryption."
	case "statements":
		return "The prepared statements of all clients need more memory than there may be. Look for applications that prepare texts with literals in them."
	case "no_database":
		return "Clients ask for a database that the configuration does not have. Add it, or [database.\"*\"]."
	case "draining":
		return "This pgweir is going away; clients that connect again should reach another."
	}
	return ""
}
