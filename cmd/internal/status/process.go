package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// Short names for the tables below.
const (
	gaugeKind   = prometheus.GaugeValue
	counterKind = prometheus.CounterValue
)

// processMetrics are what there is once.
func processMetrics() group[state.Snapshot] {
	type S = state.Snapshot
	var g group[S]
	g.gauge("pgweir_draining", "1 while it is going away: from SIGTERM on.", func(s *S) float64 { return truth(s.Draining) })
	g.metric(gaugeKind, "pgweir_clients", "Client connections. Active ones have a server; idle and waiting ones have none.", "state").
		with(func(s *S) float64 { return float64(clientStates(s).active) }, "active").
		with(func(s *S) float64 { return float64(clientStates(s).waiting) }, "waiting").
		with(func(s *S) float64 { return float64(clientStates(s).idle) }, "idle").
		with(func(s *S) float64 { return float64(s.LoggingIn) }, "login")
	g.gauge("pgweir_clients_limit", "max_client_conn: client connections allowed.", func(s *S) float64 { return float64(s.MaxClients) })
	g.gauge("pgweir_login_clients_limit", "max_logins: clients allowed that have not authenticated yet.", func(s *S) float64 { return float64(s.MaxLogins) })
	g.counter("pgweir_login_failures_total", "Logins that failed: a wrong password, no such role, a certificate or system user that is not the role's.", func(s *S) uint64 { return s.Logins.Failed })
	g.counter("pgweir_login_failures_delayed_total", "Of these answered late, because others from the same address had failed.", func(s *S) uint64 { return s.Logins.Delayed })
	g.counter("pgweir_login_failures_refused_total", "Logins that were not tried, because too many answers to failed ones from the same address were outstanding.", func(s *S) uint64 { return s.Logins.Refused })
	g.gauge("pgweir_login_failure_addresses", "Addresses with failed logins that are remembered.", func(s *S) float64 { return float64(s.Logins.Addresses) })
	g.counter("pgweir_client_logins_total", "Clients that were let in.", func(s *S) uint64 { return s.Traffic.Logins })
	g.metric(counterKind, "pgweir_bytes_total", "Bytes of messages, by side and as seen from here.", "side", "direction").
		with(func(s *S) float64 { return float64(s.Traffic.Received) }, "client", "received").
		with(func(s *S) float64 { return float64(s.Traffic.Sent) }, "client", "sent").
		with(func(s *S) float64 { return float64(s.Traffic.FromServers) }, "server", "received").
		with(func(s *S) float64 { return float64(s.Traffic.ToServers) }, "server", "sent")
	addLoop(&g)
	return g
}

// states of the clients that have authenticated.
type states struct{ active, waiting, idle int }

// clientStates tells them apart by what servers and queues say: a server that works for nobody
// any more is taken for a client's.
func clientStates(s *state.Snapshot) states {
	var c states
	for i := range s.Upstreams {
		c.active += s.Upstreams[i].Active
		c.waiting += s.Upstreams[i].Waiting
	}
	c.waiting = min(c.waiting, s.Clients)
	c.active = min(c.active, s.Clients-c.waiting)
	c.idle = s.Clients - c.waiting - c.active
	return c
}

// addLoop adds the counters of the event loop.
func addLoop(g *group[state.Snapshot]) {
	type S = state.Snapshot
	for _, c := range []struct {
		name, help string
		value      func(*S) uint64
	}{
		{"turns", "Turns of the event loop.", func(s *S) uint64 { return s.Loop.Turns }},
		{"yields", "Turns that ended with a pass through Go's scheduler.", func(s *S) uint64 { return s.Loop.Yields }},
		{"waits", "Calls of epoll_wait.", func(s *S) uint64 { return s.Loop.Waits }},
		{"sleeps", "Calls of epoll_wait that were allowed to block.", func(s *S) uint64 { return s.Loop.Sleeps }},
		{"events", "Events that epoll_wait returned.", func(s *S) uint64 { return s.Loop.Events }},
		{"reads", "Calls of recvfrom.", func(s *S) uint64 { return s.Loop.Reads }},
		{"empty_reads", "Calls of recvfrom that found nothing.", func(s *S) uint64 { return s.Loop.ReadEAGAIN }},
		{"writes", "Sends: calls of sendto and sendmsg, and each send of a batch.", func(s *S) uint64 { return s.Loop.Writes }},
		{"write_batches", "Calls of io_uring_enter, each of which is several sends.", func(s *S) uint64 { return s.Loop.Batches }},
		{"blocked_writes", "Sends that found no room.", func(s *S) uint64 { return s.Loop.WriteEAGAIN }},
		{"epoll_ctls", "Calls of epoll_ctl.", func(s *S) uint64 { return s.Loop.EpollCtl }},
		{"setsockopts", "Calls of setsockopt.", func(s *S) uint64 { return s.Loop.SockOpts }},
		{"bulks", "Times that a connection went into bulk mode.", func(s *S) uint64 { return s.Loop.Bulks }},
		{"bulk_polls", "Reads that the clock asked for in bulk mode.", func(s *S) uint64 { return s.Loop.BulkPolls }},
		{"adopted_connections", "Connections that the event loop took over, of clients and servers.", func(s *S) uint64 { return s.Loop.Adopted }},
		{"closed_connections", "Connections that the event loop closed.", func(s *S) uint64 { return s.Loop.Closed }},
		{"received_bytes", "Bytes read from sockets of both sides, with TLS as they are on the wire.", func(s *S) uint64 { return s.Loop.BytesIn }},
		{"sent_bytes", "Bytes written to sockets of both sides, with TLS as they are on the wire.", func(s *S) uint64 { return s.Loop.BytesOut }},
		{"tasks", "Tasks from other goroutines that the event loop ran.", func(s *S) uint64 { return s.Loop.Tasks }},
		{"wakeups", "Times that another goroutine had to wake the event loop.", func(s *S) uint64 { return s.Loop.PosterWakes }},
	} {
		g.counter("pgweir_loop_"+c.name+"_total", c.help, c.value)
	}
}

// memoryMetrics are the bounded stores.
func memoryMetrics() group[state.Memory] {
	type M = state.Memory
	g := group[M]{labels: []string{"kind"}, values: func(m *M) []string { return []string{label(m.Name)} }}
	g.gauge("pgweir_memory_bytes", "Memory of all of a kind, about.", func(m *M) float64 { return float64(m.Bytes) })
	g.metric(gaugeKind, "pgweir_memory_items", "How many of a kind there are.", "state").
		with(func(m *M) float64 { return float64(m.Used) }, "used").
		with(func(m *M) float64 { return float64(m.Free) }, "free")
	return g
}

// countMetrics are those whose labels are in the snapshot.
type countMetrics struct{ ended, refusals, unknown *prometheus.Desc }

func newCountMetrics() countMetrics {
	return countMetrics{
		unknown:  desc("pgweir_unknown_tags_total", "Values of tags and pgweir.* parameters that meant nothing, and were passed over.", "upstream", "key"),
		ended:    desc("pgweir_sessions_ended_total", "Client sessions that ended, by reason.", "reason"),
		refusals: desc("pgweir_refusals_total", "Requests and clients refused, by reason. Without a workload: before or outside of its queue.", "upstream", "workload", "reason"),
	}
}

func (m countMetrics) describe(ch chan<- *prometheus.Desc) {
	ch <- m.ended
	ch <- m.refusals
	ch <- m.unknown
}

func (m countMetrics) collect(ch chan<- prometheus.Metric, s *state.Snapshot) {
	for _, c := range s.Ended {
		counter(ch, m.ended, c.N, label(c.Label))
	}
	for _, c := range s.Turned {
		counter(ch, m.refusals, c.N, "", "", label(c.Label))
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		for _, c := range u.UnknownTags {
			counter(ch, m.unknown, c.N, label(u.Name), label(c.Label))
		}
	}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		upstream, name := label(w.Upstream), label(w.Name)
		for r := admission.None + 1; int(r) < admission.Reasons; r++ {
			if n := w.Refused[r]; n > 0 || !rare(r) {
				counter(ch, m.refusals, n, upstream, name, r.String())
			}
		}
	}
}

// rare reports whether a reason comes only with settings or tags that most do not have. It
// has no series before it has been seen; the others start at 0, so that rate() sees the first
// refusals.
func rare(r admission.Reason) bool {
	switch r {
	case admission.Deadline, admission.Attempts, admission.Rate, admission.Blocked, admission.Pins:
		return true
	}
	return false
}
