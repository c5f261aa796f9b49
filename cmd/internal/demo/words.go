package demo

import (
	"fmt"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/report"
)

// introduce says what is about to happen.
func (s *screen) introduce(list []stretch) {
	s.Say("\nThe same requests come twice: %.0f/s on a good day, %.0f/s in the overload. Each\n"+
		"takes %s on one of %d slots, so %d/s fit. A client waits %s, then hangs up\n"+
		"and connects again. \"Postgres\" is what the database did, for whomever.\n"+
		"Bars: %s served in time, %s refused, %s gave up.",
		rate(list[goodDay].load), rate(list[overload].load), millis(nap), slots, capacity, seconds(patience),
		s.painted(bench.Served), s.painted(bench.Refused), s.painted(bench.GaveUp))
}

// painted is an outcome's sign in its color.
func (s *screen) painted(what bench.Outcome) string {
	return s.Paint(report.ColorOf(what), s.Sign(what))
}

// announce says which of the two plays now.
func (s *screen) announce(number int, p policy) {
	s.Say("\n%s: %s", s.Bold(fmt.Sprintf("%d. %s", number, p.name)), p.about)
}

// lessons are what a reader should take from the table, in a sentence or two each.
func lessons(fifo, guard *result) []string {
	return []string{lessonOfFIFO(fifo), lessonOfGuard(guard), lessonAfter(fifo, guard)}
}

func lessonOfFIFO(r *result) string {
	p := r.phases[overload]
	if p.gaveUp == 0 {
		return "FIFO: nobody gave up. This run was too short, or the machine too busy, for an overload."
	}
	text := fmt.Sprintf("FIFO: whoever came waited behind all others, until %.0f %% gave up.", percent(p.gaveUp, p.asked()))
	if r.wasted() == 0 {
		return text
	}
	return text + fmt.Sprintf(" Postgres was busy all the time, in the end for clients that had left: %d statements for nobody.", r.wasted())
}

func lessonOfGuard(r *result) string {
	p := r.phases[overload]
	if len(p.refused) == 0 || len(p.served) == 0 {
		return "Guarded: nobody was refused. This run was too short, or the machine too busy, for an overload."
	}
	text := fmt.Sprintf("Guarded: Postgres did what fits, %.0f/s, and 99 %% of the answers came within %s. The others knew "+
		"within %s (half of them within %s) that they should come back later, over a session that they kept",
		p.rate(len(p.served)), millis(p.served.At(99)), millis(p.refused.At(99)), millis(p.refused.At(50)))
	if p.gaveUp > 0 {
		return text + fmt.Sprintf("; %d gave up, because this machine was too busy.", p.gaveUp)
	}
	return text + "."
}

func lessonAfter(fifo, guard *result) string {
	text := func(r *result) string {
		switch {
		case !r.isNormal:
			return "was not back to normal " + strings.TrimPrefix(r.backAfter(), "not ")
		case r.normal == 0:
			return "was back to normal at once"
		default:
			return "was back to normal after " + r.backAfter()
		}
	}
	return "Afterwards: the FIFO " + text(fifo) + ", the guard " + text(guard) + "."
}

// percent is how much of all n is.
func percent(n, all int) float64 { return 100 * float64(n) / float64(max(all, 1)) }

// invite says how to go on when everything is about to end.
func (s *screen) invite() {
	s.Say("\n%s\n"+
		"  make demo DEMOFLAGS=--serve   the same, and it stays up for your own psql\n"+
		"  pgweir help serve             in front of your own Postgres", s.Bold("What next"))
}

// serving says how to use what stays up.
func (s *screen) serving(th *theatre, load float64) {
	config, log := th.front.Files()
	s.Say("\n%s", s.Bold("PostgreSQL and the guarded pgweir stay up until Ctrl-C. From another terminal:"))
	s.Say("  export DATABASE_URL='%s'\n  psql \"$DATABASE_URL\"", th.url(database))
	s.Say("pgweir's console (the role is an administrator; try SHOW HELP):\n  psql '%s'", th.url("pgweir"))
	s.Say("its status page:\n  %s", th.front.Status())
	s.Say("past it, to see its servers in pg_stat_activity:\n  psql '%s'", th.stage.DirectURL(directRole, database))
	s.Say("its configuration and its log:\n  %s\n  %s", config, log)
	if load > 0 {
		s.Say("A load of %.0f/s is kept up, %g times what fits.", rate(load), load)
	}
}
