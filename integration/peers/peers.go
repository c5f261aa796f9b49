// Command peers measures poolers beside each other: pgweir, PgBouncer, Odyssey, or two
// builds of one of them. It is run by hand; README.md says how, and how to get the peers.
//
// What it reports is first of all the CPU time that the pooler's process took for a
// transaction, a megabyte, or nothing at all. On a shared machine throughput and latency
// are the machine's as much as the pooler's; CPU time is much less so. And it compares
// within one run: contenders take turns, each round in the other order, and the ratio is
// taken round by round, so that what drifts slowly cancels out.
//
// It starts everything it needs (a temporary PostgreSQL, the poolers, a load generator),
// on loopback, and ends what it started, also when it is interrupted or killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once; the kernel then ends our children
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its surroundings as arguments; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "peers:", err)
		return 2
	}
	if err := measure(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		return 1
	}
	return 0
}

// experiments lists what can be measured, in the order of `all`.
func experiments() []experimentKind {
	return []experimentKind{
		{"cpu", "CPU per transaction of pgbench -S", measureCPU},
		{"sat", "the saturated pooler, alone on a core", measureSat},
		{"copy", "COPY TO STDOUT", measureCopy},
		{"idle", "clients that logged in, ran something, and stay", measureIdle},
		{"slow", "a long COPY to a slow client", measureSlow},
		{"mixed", "pgbench -S beside four COPYs", measureMixed},
		{"tls", "CPU per transaction of pgbench -S, clients encrypt", measureTLS},
		{"tlsidle", "clients that encrypt, ran something, and stay", measureTLSIdle},
		{"login", "logins over TLS with SCRAM", measureLogins},
		{profileName, "no measurement: a CPU profile of pgweir for the compiler, to -profile", measureProfile},
		{"storm", "pgbench -S while others log in over TLS with SCRAM", measureStorm},
	}
}

// experimentKind is one thing that can be measured.
type experimentKind struct {
	name, title string
	measure     func(ctx context.Context, l *lab, e *experiment) error
}

// measure runs the experiments chosen. What was measured is printed and written even when
// a later experiment fails.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	l, err := openLab(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()

	r := newReport(l)
	for _, k := range experiments() {
		if !o.wants(k.name) {
			continue
		}
		e := r.open(k.name, k.title)
		l.progress("%s: %s", k.name, k.title)
		began := time.Now()
		err := k.measure(ctx, l, e)
		l.progress("%s: took %v", k.name, time.Since(began).Round(time.Second))
		e.print(stdout, l.labels())
		if o.json != "" {
			err = errors.Join(err, r.write(o.json))
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: interrupted", k.name) // what that broke does not matter
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// experimentNames is for messages.
func experimentNames() string {
	var names []string
	for _, k := range experiments() {
		names = append(names, k.name)
	}
	return strings.Join(names, " ")
}
