package console

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// guardViews are the tables about what PgBouncer has no notion of.
func guardViews() []view {
	return []view{
		{
			name: "WORKLOADS", what: "who may run, who waits and who is refused, by workload; shares and loans in slots",
			columns: columns("workload", "upstream", "pool_mode", "#clients", "~share", "~part", "#running", "#held", "~lent", "~borrowed",
				"#waiting", "#max_waiting", "#oldest_ms", "#max_wait_ms", "~drain_rate", "#granted", "#withdrawn", "#refused", "refused_by",
				"#granted_p99_us", "#refused_p99_us", "#goodput", "#wasted", "#wasted_ms", "#pinned", "#max_pinned", "#pins"),
			rows: snapshotRows(workloads),
		},
		{
			name: "GUARD", what: "the guard of each workload by class: who waits, whether the queue stands, who was refused and why, in vain, or would have been",
			columns: columns("workload", "upstream", "queue", "mode", "class", "#max_wait_ms", "#waiting", "#oldest_ms", "#standing",
				"#granted", "#goodput", "#refused", "refused_by", "#would_refuse", "would_by", "#false_refusals",
				"~drain_rate", "#predicted_wait_ms", "#granted_p99_us", "#refused_p99_us"),
			rows: snapshotRows(guard),
		},
		{
			name: "QUEUES", what: "the queue of each workload: who waits by class, for how long, and how long a newcomer would",
			columns: columns("workload", "upstream", "queue", "#waiting", "#critical_plus", "#critical", "#sheddable_plus", "#sheddable",
				"#standing", "#oldest_ms", "#predicted_wait_ms", "#max_wait_ms", "#max_waiting", "#running", "~slots", "#paused"),
			rows: snapshotRows(queues),
		},
		{
			name: "TENANTS", what: "whose work competes: the 100 tenants with the most waiters, then the most time on slots; those of whom nobody waits are soon forgotten",
			columns: columns("workload", "upstream", "class", "user", "tenant", "#waiting", "#running", "#served_ms", "#granted", "#refused"),
			rows:    tenants,
		},
		{
			name: "PINS", what: "who keeps a server between transactions for what is left there: LISTEN, temporary tables and the like; since when, and how long it has said nothing",
			columns: columns("workload", "upstream", "database", "user", "application_name", "addr", "#port", "state", "pinned", "#pinned_ms",
				"#silent_ms", "#remote_pid", "link", "#id"),
			rows: pins,
		},
		{
			name: "ROLES", what: "what roles may ask for: their highest class, how much of their work may be above the class of its workload, how long it may take, and what was stopped for that",
			columns: columns("user", "max_class", "~promote_share", "~promoted", "#demoted", "#capped", "#clients", "#servers", "#goodput", "#refused",
				"#ceiling", "#statement_timeout_ms", "#transaction_timeout_ms", "#idle_in_transaction_timeout_ms", "#lock_timeout_ms",
				"#statements_stopped", "#transactions_stopped", "#idle_stopped", "#locks_stopped", "#max_clients", "#max_servers"),
			rows: snapshotRows(roles),
		},
		{
			name: "RATES", what: "what became of the requests that each [[rate]] is for",
			columns: columns("rate", "per", "limit", "mode", "escalation", "#passed", "#refused", "#would_refuse", "#keys", "#evicted"),
			rows:    snapshotRows(rates),
		},
		{
			name: "BLOCKS", what: "who is blocked for not heeding refusals by a rate, or was within the last hour",
			columns: columns("address", "user", "#level", "#blocked", "#left_ms", "since", "until", "#blocks", "#violations"),
			rows:    snapshotRows(blocks),
		},
		{
			name: "HBA", what: "the rules of the hba_file in the order in which they are tried, and for how many logins each was the first",
			columns: columns("#rule_number", "file_name", "#line_number", "type", "database", "user_name", "address", "netmask", "auth_method", "options", "#matched"),
			rows:    snapshotRows(hbaRules),
		},
		{
			name: "LOGIN_FAILURES", what: "addresses from where logins have failed, the last ones first, and how late the next failure will be answered",
			columns: columns("address", "#failures", "#delay_ms", "#under_way", "#failed", "#refused", "last_time"),
			rows:    snapshotRows(loginFailures),
		},
		{
			name: "ROLE_ANSWERS", what: "what Postgres was asked about roles, for auth_query and groups: how often, in vain, and what answers from before have saved",
			columns: columns("upstream", "#asked", "#failed", "#cached", "#stale", "#kept", "#strangers"),
			rows:    snapshotRows(roleAnswers),
		},
		{
			name: "REFUSALS", what: "the last 1000 refusals, newest first, with what the clients were told",
			columns: columns("time", "client", "#client_id", "database", "user", "application_name", "upstream", "workload", "class", "tenant",
				"reason", "sqlstate", "#wait_ms", "#login", "detail", "hint", "traceparent"),
			rows: lastRefusals,
		},
		{
			name: "REFUSALS_TOTALS", what: "what was refused since the start, most frequent first",
			columns: columns("reason", "workload", "database", "user", "application_name", "tenant", "#refused", "last_time"),
			rows:    snapshotRows(refusals),
		},
		{
			name: "UPSTREAMS", what: "Postgres: the host in use, the budget and where it comes from, connections by state, the last error",
			columns: columns("upstream", "host", "hosts", "#budget", "budget_sum", "#reserve", "#slots", "#running", "#waiting", "#max_wait_ms",
				"#paused", "#down", "#sv_login", "#sv_idle", "#sv_active", "#sv_held", "#sv_being_canceled", "#sv_closing",
				"#logins", "#login_failures", "#moved", "#idled_out", "#outlived", "#cancels", "#abandoned", "#broken", "#cleaned",
				"#cancels_effective", "#cancels_late", "last_error", "last_error_time", "#replicating", "#replications"),
			rows: snapshotRows(upstreams),
		},
	}
}

func workloads(q *query, s *state.Snapshot) error {
	for i := range s.Workloads {
		w := &s.Workloads[i]
		total, by := refusedBy(&w.Refused)
		r := q.begin().text(w.Name).text(w.Upstream).text(w.Mode).count(w.Clients)
		r.fraction(w.Share, w.Part).count(w.Running, w.Held).fraction(w.Lent, w.Borrowed)
		r.count(w.Waiting, w.MaxWaiting).millis(w.Oldest).millis(w.MaxWait).fraction(w.DrainRate)
		r.total(w.Granted, w.Withdrawn, total).text(by).total(p99(&w.GrantWaits), p99(&w.RefusalWaits))
		r.total(w.Traffic.Goodput, w.Traffic.Wasted).millis(w.Traffic.WastedTime).count(w.Pinned, w.MaxPinned).total(w.Pins)
		if err := q.end(r); err != nil {
			return err
		}
	}
	return nil
}

// refusedBy adds up refusals and writes them as "queue_age=12 no_server=3".
func refusedBy(list *[admission.Reasons]uint64) (total uint64, by string) {
	var parts []string
	for i, n := range list {
		if n > 0 {
			total += n
			parts = append(parts, admission.Reason(i).String()+"="+strconv.FormatUint(n, 10))
		}
	}
	return total, strings.Join(parts, " ")
}

// p99 is the wait in microseconds that 99 of 100 stayed below, rounded up to a power of two.
func p99(w *admission.Waits) uint64 {
	all := w.Count()
	if all == 0 {
		return 0
	}
	beyond := all / 100
	for i := len(w.Buckets) - 1; i >= 0; i-- {
		if w.Buckets[i] > beyond {
			return 1 << i
		}
		beyond -= w.Buckets[i]
	}
	return 1
}

func refusals(q *query, s *state.Snapshot) error {
	list := slices.Clone(s.Refusals)
	slices.SortStableFunc(list, func(a, b state.RefusalCount) int { return cmp.Compare(b.N, a.N) })
	for i := range list {
		f := &list[i]
		r := q.begin().text(or(f.Reason, "(other)")).text(f.Workload).text(f.Database).text(f.Role).text(f.Application).text(f.Tenant)
		if err := q.end(r.total(f.N).moment(f.Last)); err != nil {
			return err
		}
	}
	for _, t := range s.Turned {
		if err := q.end(q.begin().text(t.Label).text("").text("").text("").text("").text("").total(t.N).null()); err != nil {
			return err
		}
	}
	return nil
}

func upstreams(q *query, s *state.Snapshot) error {
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		r := q.begin().text(u.Name).optional(u.Host).text(strings.Join(u.Hosts, ",")).count(u.Budget).text(u.BudgetSum)
		r.count(u.Reserve, u.Slots, u.Running, u.Waiting).millis(u.MaxWait).flag(u.Paused).flag(u.Down)
		r.count(u.Dialling, u.Idle, u.Active, u.Held, u.Cancelling, u.Closing)
		r.total(u.Logins, u.LoginFailures, u.Moved, u.IdledOut, u.Outlived, u.Cancels, u.Abandoned, u.Broken, u.Cleaned, u.CancelsEffective, u.CancelsLate)
		if err := q.end(r.optional(u.LastError).moment(u.LastErrorAt).count(u.Replicating).total(u.Replications)); err != nil {
			return err
		}
	}
	return nil
}
