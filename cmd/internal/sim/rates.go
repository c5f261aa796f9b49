package sim

import (
	"math/rand/v2"

	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/cmd/internal/session"
)

// limit draws rates, and puts them into force, in a third of the worlds: 1 = of statements, 2 =
// of server-time, 3 = both. They are low: most scripts are over them, and nobody here heeds a
// refusal. They are drawn apart, so that the other worlds are what they were before.
func (w *world) limit(seed int64) {
	w.dice = rand.New(rand.NewPCG(uint64(seed), 1))
	if w.dice.IntN(3) > 0 {
		return
	}
	w.rated = 1 + w.dice.IntN(3)
	w.rates = session.NewRates(func(*session.Client, quota.Blocked, bool) {})
	w.core.SetRates(w.rates)
	w.newRates()
}

// newRates draws other rates for clients that are kept to some.
func (w *world) newRates() {
	if w.rates == nil {
		return
	}
	var list []session.Rate
	add := func(name string, serverTime bool, most float64) {
		list = append(list, session.Rate{
			Name: name, Per: session.Per(w.dice.IntN(3)), ServerTime: serverTime,
			PerSecond: most * (0.01 + w.dice.Float64()), Burst: most * w.dice.Float64() / 10,
			Escalation: quota.Action(w.dice.IntN(3)),
		})
	}
	if w.rated&1 != 0 {
		add("statements", false, 100)
	}
	if w.rated&2 != 0 {
		add("time", true, 0.1)
	}
	w.rates.Reconfigure(w.now, list, session.Matcher{}, w.dice.IntN(4))
}
