// Package sim is virtual time: the real sessions, relay, gate and pool, with
// scripted clients, fake servers and a network that splits, delays and breaks,
// all on one goroutine and all from one seed.
//
// Its oracle is a private fake server per client, which is fed the same bytes:
// what the client was told must match byte for byte, but for refusals, which
// must leave no trace in any server. At the end nothing may be undelivered,
// permits and connections must add up, the budget must never have been exceeded
// and nothing may have run twice.
package sim
