package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// profileName is the experiment that measures nothing: all does not include it.
const profileName = "profile"

// measureProfile writes a CPU profile of pgweir, for the compiler, to -profile: of every
// protocol and number of clients, encrypted and not, for the same time each.
func measureProfile(ctx context.Context, l *lab, _ *experiment) error {
	if l.profile == "" {
		return errors.New("-profile says where to")
	}
	if l.contenders[0].kind.name != "pgweir" {
		return errors.New("of pgweir only: -of pgweir")
	}
	s, err := l.secureSite(certs.ECDSA)
	if err != nil {
		return err
	}
	for _, port := range []*int{&s.http, &s.admin} {
		if *port, err = pgtest.FreePort(); err != nil {
			return err
		}
	}
	p, err := l.beginWith(ctx, l.contenders[0], s, nil)
	if err != nil {
		return err
	}
	defer l.endPoolers()
	var parts []string
	for _, mode := range l.modes {
		for _, clients := range l.clients {
			for _, encryption := range []string{"disable", "require"} {
				p.SSLMode = encryption
				l.progress("profile: %s, %d clients, sslmode=%s", mode, clients, encryption)
				part := filepath.Join(l.dir, "profile-"+strconv.Itoa(len(parts)))
				if err := l.profileOne(ctx, p, bench{mode: mode, clients: clients, threads: 1}, s.admin, part); err != nil {
					return err
				}
				parts = append(parts, part)
			}
		}
	}
	out, err := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-proto"}, parts...)...).Output()
	if err != nil {
		return fmt.Errorf("merging profiles: %w", err)
	}
	if out, err = withoutPath(out, p.binary); err != nil {
		return err
	}
	return os.WriteFile(l.profile, out, 0o644)
}

// withoutPath is a compressed profile that does not tell where the program lay. The texts in
// a profile are of a known length, so another one of the same length takes its place.
func withoutPath(profile []byte, path string) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(profile))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	text = bytes.ReplaceAll(text, []byte(path), bytes.Repeat([]byte("x"), len(path)))
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(text)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// profileOne writes the profile of one run to a file.
func (l *lab) profileOne(ctx context.Context, p *pooler, b bench, admin int, file string) error {
	if _, err := l.pgbench(ctx, p, b, 2*warmUp); err != nil {
		return err
	}
	run := make(chan error, 1)
	go func() {
		_, err := l.pgbench(ctx, p, b, l.duration+time.Second)
		run <- err
	}()
	text, err := fetchProfile(ctx, admin, l.duration)
	if err := errors.Join(err, <-run); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func fetchProfile(ctx context.Context, admin int, d time.Duration) ([]byte, error) {
	url := fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/profile?seconds=%d", admin, d/time.Second)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, a.Status)
	}
	return io.ReadAll(a.Body)
}
