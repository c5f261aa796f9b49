package schema

import (
	"cmp"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/config/values"
)

// Workload is how a group of clients is treated: its part of slots and connections, and
// how long it waits.
type Workload struct {
	Name         string
	Match        Match
	PoolMode     PoolMode
	Share        values.Share // as configured, may be AutoShare; Part is what becomes of it
	Part         values.Share // its own part of the slots and connections of each upstream; all parts add up to at most 100%
	Lendable     values.Share // of the idle part of its own
	Borrow       values.Share // of all slots, on top of its own part
	MinPoolSize  int          // server connections kept open per database and role that it has used
	Queue        admission.Policy
	Mode         admission.Mode  // of Guard: whether it refuses, or only counts what it would refuse
	Class        admission.Class // of work that does not say
	MaxWait      values.Duration // for a slot, while every connection that may be open is open; of several the longest
	MaxWaiting   values.Count    // clients at once; Auto: see [Workload.WaitingBound]
	Patient      bool            // may wait long, and is only bounded in number
	NoServerWait values.Duration // the longest wait while Postgres cannot be reached; may be 0
	SessionWait  values.Duration // for a server connection at login, with Session
	MaxPinned    values.Share    // of its connections, for clients that keep theirs without Session; at least one unless 0
	OnDisconnect OnDisconnect
	BuiltIn      bool // it is there without the file's saying so

	// ClassWait is the longest wait for a slot by class, the highest first, as
	// [admission.ClassAt] counts; all 0: MaxWait for each.
	ClassWait [admission.Classes]values.Duration
	// Deadline is how long its clients wait for an answer; 0: not known. With LearnDeadline
	// it is what pgweir sees them wait.
	Deadline      values.Duration
	LearnDeadline bool

	named [admission.Classes]values.Duration // the classes that max_wait names
}

// The workloads that are there when a file has none of their name.
const (
	ToolsWorkload   = "tools"
	DefaultWorkload = "default"
)

// Fields are the keys of w. What is built in, and what is patient, has defaults of its own.
func (w *Workload) Fields() []Field {
	own := map[string]string{}
	if w.BuiltIn && w.Name == ToolsWorkload {
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

// BuiltIn is one that no file has written.
func BuiltIn(name string) Workload {
	w := Workload{Name: name, BuiltIn: true}
	if name == ToolsWorkload {
		w.Match.ApplicationName = toolNames()
	}
	return w
}

// most is the largest queue that "auto" allows however fast it drains.
const most = 1000

// WaitingBound is how many clients may wait at once: MaxWaiting, or for Auto what drains
// within MaxWait, at most 1000 and at least 4 x slots. perSecond is the rate at which
// transactions end; 0 means that it is not known yet.
func (w Workload) WaitingBound(slots int, perSecond float64) int {
	if !w.MaxWaiting.IsAuto() {
		return int(w.MaxWaiting)
	}
	drained := min(w.MaxWait.Std().Seconds()*max(0, perSecond), most)
	return max(int(drained), 4*slots)
}
