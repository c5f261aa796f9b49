package schema

import (
	"strconv"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/config/values"
)

// Rate is how much one caller may ask for. It protects the others from that caller, not the
// database.
type Rate struct {
	Name       string // unique; its place in the file, "1" and so on, where the file gives none
	Per        RatePer
	Match      Match    // whose work it is for
	Tenant     []string // globs for the tenant of the work; empty: any
	Rate       string   // as the file has it: "150/s"
	PerSecond  float64  // statements, or with ServerTime seconds of server-time; more than 0
	ServerTime bool     // it counts how long slots are held
	Burst      float64  // in statements, at least 1, or in seconds of server-time: as much may come at once
	AutoBurst  bool     // the file does not say Burst: it is one second of the rate, but at least one statement
	Escalation Escalation
	Mode       admission.Mode

	burstIsTime bool // what the file says of it is a duration
}

// BurstText is Burst for people: "15", or "500ms" of server-time.
func (r *Rate) BurstText() string {
	if r.ServerTime || r.burstIsTime {
		return values.Seconds(r.Burst).String()
	}
	return strconv.FormatFloat(r.Burst, 'f', -1, 64)
}

// BurstIsTime reports whether Burst is written as a duration rather than as a number.
func (r *Rate) BurstIsTime() bool { return r.burstIsTime }

// ForAll reports whether r is for all work. Lists of addresses are not looked into.
func (r *Rate) ForAll() bool { return r.Match.Everybody() && FitsAll(r.Tenant) }
