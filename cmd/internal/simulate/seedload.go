package simulate

// endless are the lines of a queue that takes everybody for as long as it takes.
const endless = "max_wait = \"60s\"\nmax_waiting = 1000000\n"

// seedQueues are the lines of the workload in the experiment E1, by policy.
func seedQueues() map[string]string {
	const finish, deadline = "on_disconnect = \"finish\"\n", "deadline = \"1s\"\n"
	return map[string]string{
		"fifo":          endless + finish,
		"fifo-gone":     endless + finish,
		"fifo-deadline": endless + deadline + finish,
		"bounded":       "max_wait = \"60s\"\nmax_waiting = 20\n",
		"lifo":          endless + finish,
		"lifo-deadline": endless + deadline + finish,
		"codel":         "max_wait = \"500ms\"\nmax_waiting = 1000000\n",
		"priority":      endless,
		"guard":         deadline + "max_wait = { critical = \"400ms\", sheddable_plus = \"200ms\", sheddable = \"50ms\" }\n",
	}
}

// seedLoad is the experiment E1, as `pgweir bench run` sends it to pgweir and Postgres: even
// arrivals, every fourth critical, over as many sessions as the bench opens, of which the one
// not used for the longest time comes next.
func seedLoad() Preset {
	return Preset{
		Name: "E1", About: "80/s for 5 s, 200/s for 10 s, 80/s for 10 s on 5 slots of 50 ms, as pgweir bench run E1 sends it",
		slots: 5, queue: seedQueues(), load: "80x5s,200x10s,80x10s", policies: PolicyNames(), Seeds: 10, Focus: 2,
		even: true, Bench: "E1", database: Database{Overhead: DefaultOverhead},
		streams: []string{
			"name=critical,share=25%,class=critical,service=50ms,patience=1s,sessions=oldest,pool=80",
			"name=sheddable_plus,share=75%,class=sheddable_plus,service=50ms,patience=1s,sessions=oldest,pool=200",
		},
	}
}
