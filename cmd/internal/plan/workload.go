package plan

import (
	"strconv"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// Workload is how a group of clients is treated.
type Workload struct {
	Name                               string
	Mode                               relay.Mode
	Share, Lendable, Borrow            float64 // see admission.Workload
	MaxWait, NoServerWait, SessionWait time.Duration
	MaxWaiting                         int // 0 = auto
	Patient                            bool
	CancelAbandoned                    bool
	MinPoolSize                        int
	Uncapped                           bool    // the ceilings of roles are not for it
	MaxPinned                          float64 // of its connections; see admission.Workload

	Queue     admission.Policy
	Guard     admission.Mode                   // of the queue
	Class     admission.Class                  // of work that does not say
	ClassWait [admission.Classes]time.Duration // by class, the highest first; all 0 = MaxWait
	Deadline  time.Duration                    // how long clients wait for an answer; 0 = not known
	Learn     bool                             // Deadline is what they are seen to wait
}

// Role is what a Postgres role may ask for.
type Role struct {
	MaxClass     admission.Class
	PromoteShare float64 // of its work, what may be above the class of its workload
	// Timeouts are the defaults of its sessions on the server; 0 = what Postgres says.
	Timeouts [session.Timeouts]time.Duration
	Ceiling  bool // and no work of it takes longer, but for workloads that are Uncapped
	// MaxClients is its sessions at once, MaxServers the server connections that are logged in as
	// it, on each upstream; 0 = no limit of its own.
	MaxClients, MaxServers int
}

// Timeouts are the defaults of the sessions of a role on the server: those that are configured.
func (s *Settings) Timeouts(role string) (list []wire.Param) {
	if s.RoleOf == nil {
		return nil
	}
	r := s.RoleOf(role)
	for t, d := range r.Timeouts {
		if d > 0 {
			ms := (d + time.Millisecond - 1) / time.Millisecond // 0 would be none
			list = append(list, wire.Param{Name: session.Timeout(t).String(), Value: strconv.FormatInt(int64(ms), 10)})
		}
	}
	return list
}

// Rate is how much one caller may ask for.
type Rate struct {
	Name       string  // unique
	Per        string  // "client", "role" or "tenant"
	Text       string  // as the file has it: "150/s"
	PerSecond  float64 // statements, or with ServerTime seconds of server-time
	ServerTime bool
	Burst      float64 // likewise
	Delay      bool    // hold back the answers to those who do not heed them
	Block      bool    // and then end their sessions; only with Delay
	Mode       admission.Mode
}

// Session is the rate as sessions know it.
func (r *Rate) Session() session.Rate {
	out := session.Rate{
		Name: r.Name, PerSecond: r.PerSecond, ServerTime: r.ServerTime, Burst: r.Burst, Text: r.Text, Mode: r.Mode,
	}
	_ = out.Per.UnmarshalText([]byte(r.Per)) // the configuration knows the same words
	switch {
	case r.Block:
		out.Escalation = quota.Block
	case r.Delay:
		out.Escalation = quota.Delay
	}
	return out
}
