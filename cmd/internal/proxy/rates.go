package proxy

import (
	"time"

	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// parkedShare is the part of the places for clients whose refusals may be held back at a time:
// each of them keeps its place for as long.
const parkedShare = 20

// limit puts the rates of s into force. Loop thread, or before there is one.
func (px *Proxy) limit(now int64, s *plan.Settings) {
	list := make([]session.Rate, 0, len(s.Rates))
	for i := range s.Rates {
		list = append(list, s.Rates[i].Session())
	}
	m := session.Matcher{Tenant: s.RateHasTenant}
	if of := s.RatesOf; of != nil {
		m.Of = func(who *session.Subject) []int { return of(who.Database, who.Role, who.Application, who.Address) }
	}
	px.rates.Reconfigure(now, list, m, max(1, s.MaxClients/parkedShare))
	px.held.Fit(s.MaxClients)
	if !px.rates.Blocking() {
		px.blocked.Clear()
		px.held.Release()
	}
	for _, up := range px.upstreams {
		up.limit()
	}
}

// limit keeps the upstream's clients to the rates, if there are any.
func (up *cluster) limit() {
	if up.px.rates.InForce() {
		up.core.SetRates(up.px.rates)
	} else {
		up.core.SetRates(nil)
	}
}

// block notes that a party is blocked from now on. Loop thread.
func (px *Proxy) block(cl *session.Client, b quota.Blocked, alarm bool) {
	length := time.Duration(b.Until - b.Since)
	px.blocked.Add(b.Party, time.Now().Add(length))
	h := cl.Tag.(*clientConn)
	px.blocks.Note(px.o.Log, alarm, px.loop.Now(), blockMessage(alarm),
		"client", h.addr, "role", b.Role, "for", length, "violations", b.Violations, "blocks_in_an_hour", b.Blocks,
		"application_name", clip(cl.Application()), "what_to_do", state.Advice("blocked"))
}

func blockMessage(alarm bool) string {
	if alarm {
		return "client blocked again and again: it never heeds its refusals"
	}
	return "client blocked: it has not heeded its refusals"
}

// mostBlocks bounds the blocks in a snapshot.
const mostBlocks = 1000

// rateFacts tells of rates and blocks. Loop thread.
func (px *Proxy) rateFacts(now int64, at time.Time, out *state.Snapshot) {
	px.rates.States(func(r session.RateState) {
		out.Rates = append(out.Rates, state.Rate{
			Name: r.Name, Per: r.Per.String(), Rate: r.Text, Escalation: r.Escalation.String(), Mode: r.Mode.String(),
			Passed: r.Passed, Refused: r.Refused, Would: r.Would, Keys: r.Keys, Evicted: r.Evicted,
		})
	})
	out.Escalation = px.rates.Escalation(now)
	px.rates.Blocks(now, func(b quota.Blocked) bool {
		address := "unix"
		if b.Address.IsValid() {
			address = b.Address.String()
		}
		out.Blocks = append(out.Blocks, state.Block{
			Address: address, Role: b.Role, Level: b.Level, Since: state.TimeOfDay(b.Since, now, at), Until: state.TimeOfDay(b.Until, now, at),
			Blocks: b.Blocks, Violations: b.Violations,
		})
		return len(out.Blocks) < mostBlocks
	})
}
