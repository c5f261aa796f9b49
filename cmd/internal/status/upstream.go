package status

import (
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// upstreamMetrics are those of a Postgres cluster.
func upstreamMetrics() group[state.Upstream] {
	type U = state.Upstream
	g := group[U]{labels: []string{"upstream"}, values: func(u *U) []string { return []string{label(u.Name)} }}
	g.metric(gaugeKind, "pgweir_slots", "Transactions that run now, and that may run at once.", "state").
		with(func(u *U) float64 { return float64(u.Running) }, "running").
		with(func(u *U) float64 { return float64(u.Slots) }, "limit")
	g.metric(gaugeKind, "pgweir_connections", "Server connections by state. Together they never exceed the budget.", "state").
		with(func(u *U) float64 { return float64(u.Active) }, "active").
		with(func(u *U) float64 { return float64(u.Idle) }, "idle").
		with(func(u *U) float64 { return float64(u.Dialling) }, "login").
		with(func(u *U) float64 { return float64(u.Closing) }, "closing").
		with(func(u *U) float64 { return float64(u.Cancelling) }, "cancelling")
	g.gauge("pgweir_budget_connections", "Server connections that this process may have.", func(u *U) float64 { return float64(u.Budget) })
	g.gauge("pgweir_reserve_connections", "Part of the budget kept for control and reserve_users.", func(u *U) float64 { return float64(u.Reserve) })
	g.gauge("pgweir_held_connections", "Active server connections that sessions in session mode keep, idle or not.", func(u *U) float64 { return float64(u.Held) })
	g.gauge("pgweir_replication_connections", "Server connections of the budget that replication has, each for one client.", func(u *U) float64 { return float64(u.Replicating) })
	g.counter("pgweir_replications_total", "Replication connections begun.", func(u *U) uint64 { return u.Replications })
	g.gauge("pgweir_waiting_clients", "Clients in the queue.", func(u *U) float64 { return float64(u.Waiting) })
	g.gauge("pgweir_paused", "1 while the upstream is paused.", func(u *U) float64 { return truth(u.Paused) })
	g.gauge("pgweir_upstream_down", "1 while no server connection is open and the last login failed.", func(u *U) float64 { return truth(u.Down) })
	g.metric(counterKind, "pgweir_server_logins_total", "Logins to Postgres, by result.", "result").
		with(func(u *U) float64 { return float64(u.Logins) }, "ok").
		with(func(u *U) float64 { return float64(u.LoginFailures) }, "failed")
	g.metric(counterKind, "pgweir_servers_closed_total", "Server connections closed from this side: given up for another database or role, idle or old by the settings, or in doubt.", "reason").
		with(func(u *U) float64 { return float64(u.Moved) }, "moved").
		with(func(u *U) float64 { return float64(u.IdledOut) }, "idle").
		with(func(u *U) float64 { return float64(u.Outlived) }, "lifetime").
		with(func(u *U) float64 { return float64(u.Broken) }, "broken")
	g.counter("pgweir_cancels_total", "Cancel requests sent to Postgres.", func(u *U) uint64 { return u.Cancels })
	g.metric(counterKind, "pgweir_cancelled_requests_total", "Requests for which cancels were sent: effective, they failed by them; late, they were over before.", "result").
		with(func(u *U) float64 { return float64(u.CancelsEffective) }, "effective").
		with(func(u *U) float64 { return float64(u.CancelsLate) }, "late")
	g.metric(counterKind, "pgweir_role_questions_total", "Questions about roles, for auth_query and groups, by what became of them: asked of Postgres, asked in vain, answered as a moment before, or by an old answer because Postgres did not say.", "outcome").
		with(func(u *U) float64 { return float64(u.Roles.Asked - u.Roles.Failed) }, "asked").
		with(func(u *U) float64 { return float64(u.Roles.Failed) }, "failed").
		with(func(u *U) float64 { return float64(u.Roles.Cached) }, "cached").
		with(func(u *U) float64 { return float64(u.Roles.Stale) }, "stale")
	g.gauge("pgweir_tenants", "Tenants that are told apart.", func(u *U) float64 { return float64(u.Tenants) })
	g.counter("pgweir_tenants_shared_total", "Requests of tenants for which there was no room, so that they were taken for one with others.", func(u *U) uint64 { return u.SharedTenants })
	g.counter("pgweir_class_demoted_total", "Requests taken as of the class of their workload because promote_share of their role was used up.", func(u *U) uint64 { return u.Demoted })
	g.counter("pgweir_class_capped_total", "Requests that asked for a higher class than max_class of their role.", func(u *U) uint64 { return u.Capped })
	stopped := g.metric(counterKind, "pgweir_ceiling_stops_total", "Statements and sessions that were stopped because they took longer than a role with a ceiling may.", "timeout")
	for t := range session.Timeout(session.Timeouts) {
		stopped.with(func(u *U) float64 { return float64(u.Stopped[t]) }, t.String())
	}
	g.counter("pgweir_abandoned_requests_total", "Clients that left while a server worked for them.", func(u *U) uint64 { return u.Abandoned })
	g.counter("pgweir_server_cleanups_total", "Server connections cleaned of what a client had left before the next one got them.", func(u *U) uint64 { return u.Cleaned })
	g.counter("pgweir_statements_replanned_total", "Batches that were sent again, unseen, because a prepared statement was out of date.", func(u *U) uint64 { return u.Replanned })
	return g
}

// workloadMetrics are those of a workload on an upstream, waits and refusals aside.
func workloadMetrics() group[state.Workload] {
	type W = state.Workload
	g := group[W]{labels: []string{"upstream", "workload"}, values: func(w *W) []string {
		return []string{label(w.Upstream), label(w.Name)}
	}}
	g.metric(counterKind, "pgweir_requests_total", "Requests for a slot, by what became of them. Withdrawn: the client left or cancelled while it waited.", "outcome").
		with(func(w *W) float64 { return float64(w.Granted) }, "served").
		with(func(w *W) float64 { return float64(refused(w)) }, "refused").
		with(func(w *W) float64 { return float64(w.Withdrawn) }, "withdrawn")
	g.metric(gaugeKind, "pgweir_workload_slots", "Slots of a workload: its part, those it uses, those of its part that others use, those it uses of others.", "state").
		with(func(w *W) float64 { return w.Part }, "part").
		with(func(w *W) float64 { return float64(w.Running) }, "running").
		with(func(w *W) float64 { return w.Lent }, "lent").
		with(func(w *W) float64 { return w.Borrowed }, "borrowed")
	g.gauge("pgweir_workload_held_connections", "Server connections that its sessions keep.", func(w *W) float64 { return float64(w.Held) })
	g.gauge("pgweir_workload_pinned_connections", "Server connections of these that are kept for what is left on them, as LISTEN.", func(w *W) float64 { return float64(w.Pinned) })
	g.gauge("pgweir_workload_pinned_connections_limit", "max_pinned: how many may be.", func(w *W) float64 { return float64(w.MaxPinned) })
	g.counter("pgweir_workload_pins_total", "How often a server connection was kept, or was about to be, for what a session left on it.", func(w *W) uint64 { return w.Pins })
	g.gauge("pgweir_workload_clients", "Client sessions.", func(w *W) float64 { return float64(w.Clients) })
	g.gauge("pgweir_workload_waiting_clients", "Clients in the queue.", func(w *W) float64 { return float64(w.Waiting) })
	g.gauge("pgweir_workload_waiting_clients_limit", "Clients that may stand in the queue.", func(w *W) float64 { return float64(w.MaxWaiting) })
	g.gauge("pgweir_workload_oldest_wait_seconds", "How long the oldest waiter has waited; 0 if nobody waits.", func(w *W) float64 { return seconds(w.Oldest) })
	g.gauge("pgweir_workload_wait_limit_seconds", "max_wait: the longest wait for a slot.", func(w *W) float64 { return seconds(w.MaxWait) })
	g.gauge("pgweir_workload_drain_transactions_per_second", "Transactions that its slots can end, as learned; 0 if not known yet.", func(w *W) float64 { return w.DrainRate })
	g.counter("pgweir_false_refusals_total", "Refusals that turned out to be in vain: a slot was idle for long enough within the time that the refused could have waited.", func(w *W) uint64 { return w.FalseRefusals })
	g.counter("pgweir_transactions_total", "Servers that came back at the end of a transaction.", func(w *W) uint64 { return w.Traffic.Transactions })
	g.counter("pgweir_queries_total", "Queries and pipelines that servers answered.", func(w *W) uint64 { return w.Traffic.Queries })
	g.metric(counterKind, "pgweir_transaction_seconds_total", "Time for which servers were bound to clients.").
		with(func(w *W) float64 { return seconds(w.Traffic.TransactionTime) })
	g.metric(counterKind, "pgweir_query_seconds_total", "Time for which servers had something to answer.").
		with(func(w *W) float64 { return seconds(w.Traffic.QueryTime) })
	g.counter("pgweir_wasted_requests_total", "Requests that servers went on with for clients that had left or given up.", func(w *W) uint64 { return w.Traffic.Wasted })
	g.metric(counterKind, "pgweir_wasted_seconds_total", "Time that servers worked for nobody: after the client had left, or its deadline had passed.").
		with(func(w *W) float64 { return seconds(w.Traffic.WastedTime) })
	return g
}

// refused is the sum over all reasons.
func refused(w *state.Workload) uint64 { return allReasons(&w.Refused) }

func seconds(d time.Duration) float64 { return d.Seconds() }
