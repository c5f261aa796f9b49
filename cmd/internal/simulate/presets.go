package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pgweir/pgweir/config"
)

// Preset is a scenario from the literature of overload, or one that a guard has to stand.
type Preset struct {
	Name  string
	About string
	// Published are figures of others for the same load, a line each.
	Published []string
	Seeds     int

	slots    int
	policies []string          // to compare, if nobody says
	queue    map[string]string // lines of the workload by policy; "" = of all others
	more     string            // lines of the file behind that
	load     string
	streams  []string
	events   []string
	window   time.Duration
	database Database
	variants []variant // nil = one
	oracle   bool
	even     bool
	// Bench is the experiment of `pgweir bench run` that sends the same; "" = there is none.
	Bench string
	// Focus is the window that tells most; 0 = none does.
	Focus int
}

// variant is a preset with other streams.
type variant struct {
	name    string
	streams []string
}

// Named is an input with what to call it in a comparison.
type Named struct {
	Name string
	Input
}

// without are the lines of a workload whose queue has no bounds, as the policies of the past
// had none.
const without = "max_wait = \"1h\"\nmax_waiting = 1000000\non_disconnect = \"finish\"\n"

// past are the lines of a workload by policy: each as it was published, guard with own lines.
func past(guard string) map[string]string {
	return map[string]string{
		"": without, "guard": guard,
		"bounded": "max_wait = \"1h\"\nmax_waiting = 20\non_disconnect = \"finish\"\n",
	}
}

// lognormal is a variant of streams whose service times vary.
func lognormal(streams []string) []string {
	list := make([]string, len(streams))
	for i, s := range streams {
		list[i] = s + ",spread=lognormal:1"
	}
	return list
}

func seedStreams(more string) []string {
	return []string{
		"name=critical,share=25%,class=critical,service=50ms,patience=1s,deadline=patience,expected=median" + more,
		"name=others,share=75%,class=sheddable_plus,service=50ms,patience=1s,deadline=patience,expected=median" + more,
	}
}

const seedWaits = "max_wait = { critical = \"400ms\", sheddable_plus = \"200ms\" }\n"

const low = "class = \"sheddable_plus\"\n"

// Presets are all of them.
func Presets() []Preset {
	fresh := seedStreams(",sessions=fresh")
	return slices.Concat([]Preset{
		{
			Name: "A", About: "too much for ten seconds: 5 slots of 50 ms, 80, 200 and 80 requests per second, a quarter of them critical",
			slots: 5, queue: past(seedWaits), load: "80x5s,200x10s,80x10s", streams: fresh, policies: PolicyNames(), Seeds: 10, Focus: 2,
			Published: []string{
				"10-15 s, per policy: goodput/s, p50, p99, refused, told after, timed out, critical",
				"fifo 0, -, -, 0, -, 1013, 0/254; fifo-gone 0.2; fifo-deadline 99.9, 994, 1000, 513, 957, 0, 124/254",
				"bounded 99.9, 244, 250, 513, 0, 0, 124/254; lifo 104, 55, 669, 0, -, 493, 127/254; lifo-deadline the same",
				"codel 100.1, 55, 110, 513, 62.5, 0, 122/254; priority 99.8, 98, 132, 514, 0, 0, 254/254",
				"guard 99.5, 57, 112, -, 9.5, 0, 254/254",
			},
		},
		{
			Name: "A-lognormal", About: "the same with service times that vary (log-normal, sigma 1)",
			slots: 5, queue: past(seedWaits), load: "80x5s,200x10s,80x10s", streams: lognormal(fresh), policies: PolicyNames(), Seeds: 10, Focus: 2,
		},
		{
			Name: "A-pool", About: "the same through connection pools, which hand out the connection used last",
			slots: 5, queue: past(seedWaits), load: "80x5s,200x10s,80x10s", streams: seedStreams(""), policies: []string{"guard"}, Seeds: 10, Focus: 2,
		},
		{
			Name: "tenfold", About: "ten times what fits, for 20 s",
			slots: 5, queue: past(seedWaits), load: "80x5s,1000x20s,80x5s", streams: fresh, policies: []string{"guard"}, Seeds: 5,
		},
		{
			Name: "B", About: "one greedy client, 400 per second, beside a hundred others with 1 each: 10 slots of 30 ms, no rate limit",
			slots: 10, queue: past(""), load: "0x5s", Seeds: 10,
			policies: []string{"guard", "fifo", "bounded", "lifo-deadline", "codel"},
			streams: []string{
				"name=greedy,app_name=greedy,rate=400/s,service=30ms,patience=1s,deadline=patience,sessions=fresh",
				"name=others,rate=100/s,tenants=100,service=30ms,patience=1s,deadline=patience,sessions=fresh",
			},
			Published: []string{
				"others served of 494, their p99, greedy/s: fifo 192, 884, 155; bounded 327, 90, 272; lifo-deadline 348, 735, 286",
				"codel 332, 68, 269; guard 494, 47, 237",
			},
		},
		{
			Name: "D", About: "retry storm: the database freezes for 3 s, clients that fail try again up to 3 times within 100 ms",
			slots: 5, queue: past(""), load: "80x20s", events: []string{"freeze=5s..8s"}, Seeds: 10,
			policies: []string{"guard", "fifo", "fifo-deadline", "bounded", "codel"},
			streams: []string{
				"name=all,service=50ms,patience=1s,deadline=patience,retries=3,retry_within=100ms,sessions=fresh",
			},
			variants: []variant{{}, {" hint", []string{
				"name=all,service=50ms,patience=1s,deadline=patience,retries=3,retry_within=100ms,retry=hint,sessions=fresh",
			}}},
			Published: []string{
				"served/s in 5-10, 10-15, 15-20 s, attempts per request: fifo 0, 0, 0, 3.39; fifo-deadline 70.5, 79, 79, 1.31",
				"bounded 32.4, 79, 79, 1.37; codel 38.8, 79, 78.9, 1.38; guard 34.7, 79, 78.9, 1.39; guard hint 59.2, 78.8, 79, 1.50",
			},
		},
	}, more(fresh))
}

// more are those without a table of their own in the literature.
func more(fresh []string) []Preset {
	g := func(rest string) []string {
		return []string{"name=all,service=16.5ms@70%+65.9ms@25%+247ms@5%,spread=lognormal:1,patience=500ms,deadline=patience,sessions=fresh," + rest}
	}
	return []Preset{
		{
			Name: "G", About: "deadlines: 10 slots, three kinds of statements whose times vary (log-normal, sigma 1), 1.6 times what fits, patience 500 ms",
			slots: 10, queue: past(""), load: "396x30s", streams: g("expected=median"), Seeds: 10, policies: []string{"guard", "fifo", "fifo-deadline"},
			variants: []variant{
				{" p50", g("expected=median,leave=walk")},
				{" p50 cancel", g("expected=median,leave=cancel")},
				{" mean cancel", g("expected=mean,leave=cancel")},
				{" p90 cancel", g("expected=upper,leave=cancel")},
				{" learned cancel", g("expected=learned,leave=cancel")},
			},
			Published: []string{
				"goodput/s, p99, timeouts/s, wasted: fifo-deadline p50 320, 497, 37, 45 %; with cancel 360, 489, 19, 39 %",
				"guard p50 244, 321, 1.9, 16 %; mean with cancel 262, 322, 2.1, 10.5 %; p90 with cancel 328, 244, 0.5, 2.8 %",
			},
		},
		seedLoad(),
		pages("pages", 10, "100x20s"),
		pages("pages-40", 40, "25x20s"),
		{
			Name: "E2", About: "500 per second for 5 s on 10 slots of 30 ms",
			slots: 10, queue: past(""), load: "500x5s", Seeds: 10, policies: []string{"guard", "fifo", "bounded"},
			streams:   []string{"name=all,service=30ms,patience=1s,deadline=patience,sessions=fresh"},
			Published: []string{"naive 878 of 2500, p50 514, p99 991; bounded 1616, p50 63, p99 77"},
		},
		{
			Name: "E10", About: "90 slots, the database frozen for 30 s, patience 1 s",
			slots: 90, queue: past("max_wait = \"1s\"\nmax_waiting = 2000\n"), load: "1600x45s", events: []string{"freeze=5s..35s"}, Seeds: 2,
			policies: []string{"guard", "fifo-gone"}, window: 5 * time.Second,
			streams: []string{"name=all,service=50ms,patience=1s,deadline=patience,sessions=fresh"},
		},
		{
			Name: "E15", About: "CoDel's own test: 1000 per second in, 500 out, 10 s",
			slots: 1, queue: past("max_wait = { critical = \"1s\" }\n"), load: "1000x10s", Seeds: 10, policies: []string{"guard", "codel", "fifo"},
			streams:   []string{"name=all,service=2ms,sessions=fresh"},
			Published: []string{"queue: 43 % dropped, p50 998; codel: 46 % dropped, p50 5.3, p99 34"},
		},
		{
			Name: "E18", About: "50 critical requests of 50 ms per second beside another role's, which has little of that class and far too much of a lower one: 5 slots",
			slots: 5, queue: map[string]string{"": without + low, "guard": low}, load: "200x15s", Seeds: 10, policies: []string{"guard", "priority"},
			streams: []string{
				"name=honest,role=app,class=critical,share=25%,service=50ms,patience=1s,deadline=patience,sessions=fresh",
				"name=promoted,role=batch,class=critical,share=6%,service=50ms,patience=1s,deadline=patience,sessions=fresh",
				"name=demoted,role=batch,share=69%,service=50ms,patience=1s,deadline=patience,sessions=fresh",
			},
		},
		{
			Name: "E21", About: "refusals in vain: 60 % of what fits, and twice what fits for 50 ms in every second",
			slots: 10, queue: past(""), load: strings.TrimSuffix(strings.Repeat("600x950ms,2000x50ms,", 20), ","), Seeds: 10, oracle: true,
			policies: []string{"guard", "codel", "bounded"}, window: 20 * time.Second,
			streams: []string{
				"name=all,class=sheddable_plus,service=10ms,patience=1s,sessions=fresh",
			},
		},
		affinity(),
		crowd("E9", "three roles with 15 clients each on 10 slots of 10 ms, 1000 queries each", 3, 1, "clients=15,queries=1000,service=10ms"),
		crowd("E9-one", "45 clients of one role and application on 10 slots of 10 ms, 1000 queries each", 1, 3, "clients=15,queries=1000,service=10ms"),
		crowd("crowd", "300 clients of one role and application on 10 slots of 10 ms, which think for 50 ms", 1, 3, "clients=100,service=10ms,spread=exp,think=50ms,patience=5s"),
		{
			Name: "E3-rate", About: "the greedy client of B, with a rate of 150 per second and a burst of 15",
			slots: 10, queue: past(""), load: "0x5s", Seeds: 10, policies: []string{"guard"},
			more: "[[rate]]\nper = \"tenant\"\nrate = \"150/s\"\nburst = 15\n",
			streams: []string{
				"name=greedy,app_name=greedy,rate=400/s,service=30ms,patience=1s,deadline=patience,sessions=fresh",
				"name=others,app_name=other,rate=100/s,tenants=100,service=30ms,patience=1s,deadline=patience,sessions=fresh",
			},
			Published: []string{"others 499 of 500, p99 48; greedy 758, refused 1239"},
		},
		{
			Name: "E28", About: "restart of the database at full load: logins fail for half a second",
			slots: 20, queue: past(""), load: "400x10s", events: []string{"restart=4s..4500ms"}, Seeds: 5, policies: []string{"guard", "fifo-gone"},
			streams: []string{"name=all,service=45ms,spread=exp,patience=5s,sessions=fresh"}, window: time.Second,
			database: Database{Connect: 20 * time.Millisecond},
		},
		{
			Name: "day", About: "a good day: 70 % of what fits, service times that vary; nobody should be refused",
			slots: 10, queue: past(""), load: "350x60s", Seeds: 5, policies: []string{"guard", "fifo"}, oracle: true, window: 60 * time.Second,
			streams: []string{
				"name=critical,share=25%,class=critical,service=20ms,spread=lognormal:1,patience=2s,deadline=patience",
				"name=others,share=75%,class=sheddable_plus,service=20ms,spread=lognormal:1,patience=2s,deadline=patience",
			},
		},
	}
}

// pages is a preset of pages of n statements at twice what fits.
func pages(name string, n int, load string) Preset {
	stream := fmt.Sprintf("name=pages,service=20ms,statements=%d,patience=1s,deadline=patience,sessions=fresh", n)
	return Preset{
		Name: name, About: fmt.Sprintf("pages of %d statements each at twice what 10 slots of 20 ms can do; a page fails with its first refusal", n),
		slots: 10, queue: past(""), load: load, Seeds: 10, policies: []string{"guard", "fifo-deadline", "bounded", "codel"},
		streams: []string{stream},
		variants: []variant{
			{"", []string{stream}},
			{" varying", lognormal([]string{stream})},
		},
		Published: []string{"judged one by one 24.7 of 50 pages/s, half of the work wasted; continuing first 49.9 (10 statements)"},
	}
}

// affinity is three roles on three databases that share ten connections.
func affinity() Preset {
	p := Preset{
		Name: "E27", About: "affinity: 3 roles x 3 databases on 10 connections, 10 ms of work, all busy; a login takes 5 ms",
		slots: 10, queue: past(""), load: "0x20s", Seeds: 3, policies: []string{"guard", "fifo"},
		more:      "[database.one]\nupstream = \"main\"\n[database.two]\nupstream = \"main\"\n[database.three]\nupstream = \"main\"\n",
		Published: []string{"without affinity 27 per s; ideal 1000"},
	}
	for _, database := range []string{"one", "two", "three"} {
		for _, role := range []string{"a", "b", "c"} {
			p.streams = append(p.streams, fmt.Sprintf("name=%s@%s,role=%s,database=%s,clients=10,service=10ms", role, database, role, database))
		}
	}
	return p
}

// crowd is a preset of clients that ask again and again, in streams by role and each of several.
func crowd(name, about string, roles, each int, what string) Preset {
	p := Preset{
		Name: name, About: about, slots: 10, queue: past(""), load: "0x20s", Seeds: 3, policies: []string{"guard", "fifo-gone"},
	}
	for role := range roles {
		for i := range each {
			p.streams = append(p.streams, fmt.Sprintf("name=%d-%d,role=r%d,app_name=app,%s", role+1, i+1, role+1, what))
		}
	}
	return p
}

// Policies are those that the preset compares.
func (p *Preset) Policies() []string { return slices.Clone(p.policies) }

// Inputs are the preset's scenarios with each of the policies, and with changes of the
// configuration, as [config.Options.Set] has them.
func (p *Preset) Inputs(policies []string, changes map[string]string) ([]Named, error) {
	var list []Named
	for _, policy := range policies {
		text, err := p.file(policy)
		if err != nil {
			return nil, err
		}
		c, problems := config.Options{Set: changes}.Parse("preset "+p.Name, []byte(text))
		if len(problems) > 0 {
			return nil, fmt.Errorf("%s", problems[0].Detail())
		}
		variants := p.variants
		if variants == nil {
			variants = []variant{{"", p.streams}}
		}
		for _, v := range variants {
			in := Input{
				Name: p.Name + ": " + p.About, Config: c, Load: p.load, Events: p.events, Window: p.window,
				Database: p.database, Oracle: p.oracle, Even: p.even, Streams: v.streams,
			}
			if v.streams == nil {
				in.Streams = p.streams
			}
			in.Database.Connect = cmp.Or(in.Database.Connect, DefaultConnect)
			in.Database.Close, in.Database.Cancel = DefaultClose, DefaultCancel
			list = append(list, Named{policy + v.name, in})
		}
	}
	return list, nil
}

// What a database is assumed to need when nobody says.
const (
	DefaultConnect = 5 * time.Millisecond
	DefaultClose   = 2 * time.Millisecond
	DefaultCancel  = time.Millisecond
)

// DefaultOverhead is what a statement holds its slot for beyond its own time, in the presets
// that are compared with measurements. It is from other work than theirs: in the experiment E15,
// which naps for 10 ms, five slots did 481 per second on two cores of a virtual machine. Of
// another machine it is slots / capacity - 10 ms, with the capacity that E15 prints.
const DefaultOverhead = 400 * time.Microsecond

// file is the preset's configuration with a policy.
func (p *Preset) file(policy string) (string, error) {
	if !slices.Contains(PolicyNames(), policy) {
		return "", fmt.Errorf("%q is not a policy: there are %s", policy, strings.Join(PolicyNames(), ", "))
	}
	lines, own := p.queue[policy]
	if !own {
		lines = p.queue[""]
	}
	return fmt.Sprintf(`[auth]
auth_type = "trust"

[upstream.main]
url     = "postgres://app@localhost/app"
budget  = %d
reserve = 0
slots   = %d

[database."*"]
upstream = "main"
%s
[[workload]]
name  = "tools"
match = { application_name = ["no-such-tool"] }
share = "0%%"

[[workload]]
name  = "default"
queue = %q
%s`, p.slots, p.slots, p.more, policy, lines), nil
}

// FindPreset is the preset of a name, and false if there is none.
func FindPreset(name string) (Preset, bool) {
	list := Presets()
	i := slices.IndexFunc(list, func(p Preset) bool { return strings.EqualFold(p.Name, name) })
	if i < 0 {
		return Preset{}, false
	}
	return list[i], true
}
