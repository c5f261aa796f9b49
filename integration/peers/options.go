package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rootEnv and binaryEnv are where the defaults of the flags -root and -pgweir come from.
const (
	rootEnv   = "PEERS_ROOT"
	binaryEnv = "PEERS_PGWEIR"
)

// options is the command line.
type options struct {
	experiments []string
	contenders  []string // "kind" or "kind=binary", the subject first
	root        string   // a Debian tree that holds the peers; empty: the host's own
	pgweir      string   // a built pgweir; empty: built from this tree
	json        string   // where to write all samples; empty: nowhere
	profile     string   // where to write what the compiler is to know

	rounds   int // 0: each experiment's own number
	duration time.Duration
	modes    []string
	clients  []int
	threads  int // of pgbench

	copyMB, slowMB int
	idleClients    int
	statements     []int
	rest           time.Duration
	mixedClients   int
	patience       time.Duration // for a quiet machine, before each run
}

// parseOptions reads the command line; usage goes to w.
func parseOptions(args []string, w io.Writer) (options, error) {
	var o options
	var of, modes, clients, statements string
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(w)
	f.Usage = func() {
		fmt.Fprintln(w, "usage: peers [flags] EXPERIMENT... (or all)")
		for _, k := range experiments() {
			fmt.Fprintf(w, "  %-6s %s\n", k.name, k.title)
		}
		f.PrintDefaults()
	}
	f.StringVar(&of, "of", "pgweir,pgbouncer", "`contenders`, the subject first: pgweir, pgbouncer, odyssey, postgres (none between); KIND=BINARY for another build")
	f.StringVar(&o.root, "root", os.Getenv(rootEnv), "`directory` of a Debian tree with the peers in it, run by chroot ($"+rootEnv+"); empty: the host's")
	f.StringVar(&o.pgweir, "pgweir", os.Getenv(binaryEnv), "built pgweir ($"+binaryEnv+"); empty: built from this tree")
	f.StringVar(&o.json, "json", "", "`file` for all samples")
	f.StringVar(&o.profile, "profile", "", "profile: `file` to write")
	f.IntVar(&o.rounds, "rounds", 0, "rounds (pairs of runs); 0: cpu and tls 10, sat, copy, login and storm 5, mixed 3, others 1")
	f.DurationVar(&o.duration, "time", 3*time.Second, "length of a run of cpu, sat, mixed, tls, login, storm")
	f.StringVar(&modes, "modes", "simple,extended,prepared", "protocols of cpu, sat and tls")
	f.StringVar(&clients, "clients", "64,16", "numbers of clients of cpu, sat and tls")
	f.IntVar(&o.threads, "threads", 1, "threads of pgbench")
	f.IntVar(&o.copyMB, "copy-mb", 200, "size of a COPY of copy and mixed, in MB")
	f.IntVar(&o.slowMB, "slow-mb", 1000, "size of the COPY of slow, in MB")
	f.IntVar(&o.idleClients, "idle-clients", 10000, "clients of idle")
	f.StringVar(&statements, "statements", "0,1,20", "named prepared statements per client of idle")
	f.DurationVar(&o.rest, "rest", 10*time.Second, "idle: rest before memory is read, and again while wake-ups are counted")
	f.IntVar(&o.mixedClients, "mixed-clients", 16, "pgbench clients of mixed")
	f.DurationVar(&o.patience, "patience", 0, "before each run wait so long at most until nobody else uses the machine; 0: do not look")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.experiments, o.contenders, o.modes = f.Args(), strings.Split(of, ","), strings.Split(modes, ",")
	var err error
	if o.clients, err = numbers("clients", clients, 1); err != nil {
		return o, err
	}
	if o.statements, err = numbers("statements", statements, 0); err != nil {
		return o, err
	}
	return o, o.check()
}

// check finds what no flag can find alone.
func (o options) check() error {
	if len(o.experiments) == 0 {
		return fmt.Errorf("name an experiment (%s) or all", experimentNames())
	}
	for _, name := range o.experiments {
		if name != "all" && !slices.ContainsFunc(experiments(), func(k experimentKind) bool { return k.name == name }) {
			return fmt.Errorf("no experiment %q (there are %s, all); flags come first", name, experimentNames())
		}
	}
	for _, mode := range o.modes {
		if mode != "simple" && mode != "extended" && mode != "prepared" {
			return fmt.Errorf("-modes: %q is none of simple, extended, prepared", mode)
		}
	}
	for flag, n := range map[string]int{
		"threads": o.threads, "copy-mb": o.copyMB, "slow-mb": o.slowMB,
		"idle-clients": o.idleClients, "mixed-clients": o.mixedClients,
	} {
		if n < 1 {
			return fmt.Errorf("-%s: must be at least 1", flag)
		}
	}
	if o.duration < time.Second || o.duration%time.Second != 0 {
		return fmt.Errorf("-time: pgbench knows whole seconds only, at least 1")
	}
	if o.rounds < 0 || o.rest < 0 || o.patience < 0 {
		return fmt.Errorf("-rounds, -rest and -patience: not below 0")
	}
	return nil
}

// wants reports whether an experiment was chosen.
func (o options) wants(name string) bool {
	return slices.Contains(o.experiments, name) || name != profileName && slices.Contains(o.experiments, "all")
}

// roundsOr is the number of rounds, or the experiment's own.
func (o options) roundsOr(own int) int {
	if o.rounds > 0 {
		return o.rounds
	}
	return own
}

// numbers reads a list such as "64,16".
func numbers(flag, list string, least int) ([]int, error) {
	var all []int
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < least {
			return nil, fmt.Errorf("-%s: %q is not a number of at least %d", flag, field, least)
		}
		all = append(all, n)
	}
	return all, nil
}
