package demo

import (
	"fmt"
	"strings"
)

// introduce says what is about to happen.
func (s *screen) introduce(list []stretch) {
	s.say("\nThe same requests come twice: %.0f/s on a good day, %.0f/s in the overload. Each\n"+
		"takes %s on one of %d slots, so %d/s fit. A client waits %s, then hangs up\n"+
		"and connects again. \"Postgres\" is what the database did, for whomever.\n"+
		"Bars: %s served in time, %s refused, %s gave up.",
		rate(list[goodDay].load), rate(list[overload].load), millis(nap), slots, capacity, seconds(patience),
		s.paint(colorOf(served), s.sign(served)), s.paint(colorOf(refused), s.sign(refused)), s.paint(colorOf(gaveUp), s.sign(gaveUp)))
}

// announce says which of the two plays now.
func (s *screen) announce(number int, p policy) {
	s.say("\n%s: %s", s.bold(fmt.Sprintf("%d. %s", number, p.name)), p.about)
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
		p.rate(len(p.served)), millis(p.served.at(99)), millis(p.refused.at(99)), millis(p.refused.at(50)))
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
	s.say("\n%s\n"+
		"  make demo DEMOFLAGS=--serve   the same, and it stays up for your own psql\n"+
		"  pgweir help serve             in front of your own Postgres", s.bold("What next"))
}

// serving says how to use what stays up.
func (s *screen) serving(st *stage, load float64) {
	s.say("\n%s", s.bold("PostgreSQL and the guarded pgweir stay up until Ctrl-C. From another terminal:"))
	s.say("  export DATABASE_URL='%s'\n  psql \"$DATABASE_URL\"", st.front.url(database))
	if st.front.console {
		s.say("pgweir's console (the role is an administrator; try SHOW HELP):\n  psql '%s'", st.front.url("pgweir"))
	}
	if st.front.http != "" {
		s.say("its status page:\n  http://%s/", st.front.http)
	}
	s.say("past it, to see its servers in pg_stat_activity:\n  psql '%s'", st.directURL())
	s.say("its configuration and its log:\n  %s\n  %s", st.front.configFile, st.front.log.path)
	if load > 0 {
		s.say("A load of %.0f/s is kept up, %g times what fits.", rate(load), load)
	}
}
