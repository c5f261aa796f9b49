package state

import "time"

// LoginStats counts logins that failed: a wrong password, no such role, nobody who vouches
// for it.
type LoginStats struct {
	Failed    uint64
	Delayed   uint64 // of these answered late
	Refused   uint64 // logins that were not even tried because too many of these were under way
	Addresses int    // with failures that are remembered
}

// Suspect is an address from where logins have failed.
type Suspect struct {
	Address  string // an IPv6 network; "unix uid N" for a Unix socket
	Failures int    // that are not forgotten yet
	Delay    time.Duration
	Under    int // logins that are checked or wait for their answer
	Failed   uint64
	Refused  uint64 // without being tried
	Last     time.Time
}

// HBARule is a rule of the hba file in force, in the words of Postgres's pg_hba_file_rules.
type HBARule struct {
	Number           int // from 1
	File             string
	Line             int
	Type             string
	Databases, Roles []string
	Address, Netmask string // "" where there is none
	Method           string
	Options          []string
	Matched          uint64 // logins for which it was the first
}
