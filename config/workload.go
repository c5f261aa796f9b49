package config

import (
	"cmp"
	"slices"

	"github.com/pgweir/pgweir/admission"
)

// Workload is how a group of clients is treated: its part of slots and connections, and
// how long it waits.
type Workload struct {
	Name         string
	Match        Match
	PoolMode     PoolMode
	Share        Share // as configured, may be AutoShare; Part is what becomes of it
	Part         Share // its own part of the slots and connections of each upstream; all parts add up to at most 100%
	Lendable     Share // of the idle part of its own
	Borrow       Share // of all slots, on top of its own part
	MinPoolSize  int   // server connections kept open per database and role that it has used
	Queue        admission.Policy
	Mode         admission.Mode  // of Guard: whether it refuses, or only counts what it would refuse
	Class        admission.Class // of work that does not say
	MaxWait      Duration        // for a slot, while every connection that may be open is open; of several the longest
	MaxWaiting   Count           // clients at once; Auto: see [Workload.WaitingBound]
	Patient      bool            // may wait long, and is only bounded in number
	NoServerWait Duration        // the longest wait while Postgres cannot be reached; may be 0
	SessionWait  Duration        // for a server connection at login, with Session
	OnDisconnect OnDisconnect
	BuiltIn      bool // it is there without the file's saying so

	// ClassWait is the longest wait for a slot by class, the highest first, as
	// [admission.ClassAt] counts; all 0: MaxWait for each.
	ClassWait [admission.Classes]Duration
	// Deadline is how long its clients wait for an answer; 0: not known. With LearnDeadline
	// it is what pgweir sees them wait.
	Deadline      Duration
	LearnDeadline bool

	named [admission.Classes]Duration // the classes that max_wait names
}

// The workloads that are there when a file has none of their name.
const (
	toolsWorkload   = "tools"
	defaultWorkload = "default"
)

// fields are the keys of w. What is built in, and what is patient, has defaults of its own.
func (w *Workload) fields() []field {
	own := map[string]string{}
	if w.BuiltIn && w.Name == toolsWorkload {
		own = toolsDefaults()
	}
	if w.Patient {
		own["max_wait"] = patientWait
	}
	fields := workloadFields(w)
	for i, f := range fields {
		fields[i].Default = cmp.Or(own[f.Name], f.Default)
	}
	return fields
}

// patientWait is the max_wait of a patient workload that does not say.
const patientWait = `"1m"`

// toolsDefaults are the keys of the workload of programs that need one server connection
// for all of their life, because they leave settings, locks or snapshots behind between
// transactions.
func toolsDefaults() map[string]string {
	return map[string]string{
		"name": `"tools"`, "pool_mode": `"session"`, "share": `"10%"`, "lendable": `"100%"`, "borrow": `"20%"`,
	}
}

// toolNames match the application_name of such programs. It has only those that tell their
// name; others can be told to by application_name in their connection string.
func toolNames() []string {
	return []string{"pg_dump", "pg_dumpall", "pg_restore", "pg_repack", "pgroll*", "Flyway*"}
}

// builtInWorkload is one that no file has written.
func builtInWorkload(name string) Workload {
	w := Workload{Name: name, BuiltIn: true}
	if name == toolsWorkload {
		w.Match.ApplicationName = toolNames()
	}
	return w
}

// Parts divides n slots or connections among Workloads by their Part, the largest
// remainder first. Each gets its exact part rounded down or up. Whole numbers are for
// people: admission reckons with the fractions.
func (c *Config) Parts(n int) []int {
	parts := make([]int, len(c.Workloads))
	order := make([]int, len(c.Workloads))
	left := Share(0)
	remainder := func(i int) int64 { return int64(n) * int64(c.Workloads[i].Part) % int64(whole) }
	rest := n
	for i, w := range c.Workloads {
		parts[i], order[i] = w.Part.Of(n), i
		rest -= parts[i]
		left += w.Part
	}
	rest -= (whole - left).Of(n) // what belongs to nobody
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainder(b), remainder(a)) })
	for _, i := range order {
		if rest <= 0 || remainder(i) == 0 {
			break
		}
		parts[i]++
		rest--
	}
	return parts
}

// divideShares gives each workload its Part: what it says, or an equal part of what those
// that say leave. The built-in "tools" takes no more than is left.
func (c *Config) divideShares(shrinks func(*Workload) bool) {
	rest, autos := whole, 0
	for i := range c.Workloads {
		switch w := &c.Workloads[i]; {
		case w.Share.IsAuto():
			autos++
		case !shrinks(w):
			w.Part = w.Share
			rest -= w.Share
		}
	}
	for i := range c.Workloads {
		if w := &c.Workloads[i]; !w.Share.IsAuto() && shrinks(w) {
			w.Part = min(w.Share, rest)
			rest -= w.Part
		}
	}
	for i := range c.Workloads {
		if w := &c.Workloads[i]; w.Share.IsAuto() {
			w.Part = (rest + Share(autos) - 1) / Share(autos)
			rest -= w.Part
			autos--
		}
	}
}
