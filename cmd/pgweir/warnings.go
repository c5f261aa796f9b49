package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login/hba"
	"github.com/pgweir/pgweir/config"
)

// warnings is what is odd about a configuration, and about the files that it names.
func warnings(c *config.Config, now time.Time) []string {
	return slices.Concat(c.Warnings(), fileWarnings(c, now))
}

// fileWarnings is what is odd about the files that a configuration names. What can't be read is
// somebody else's to refuse.
func fileWarnings(c *config.Config, now time.Time) (list []string) {
	if entries, err := users(c.Auth); err == nil {
		list = append(list, userWarnings(c, entries)...)
	}
	list = append(list, ruleWarnings(c)...)
	if front, err := frontTLS(&c.TLS); err == nil {
		list = append(list, tlsWarnings(&c.TLS, front, now)...)
	}
	return append(list, encryptionWarnings(c)...)
}

// ruleWarnings says which rules of the hba_file nobody gets in by.
func ruleWarnings(c *config.Config) []string {
	if c.Auth.HBAFile == "" || c.TLS.CAFile != "" {
		return nil
	}
	maps, err := identMaps(c.Auth)
	if err != nil {
		return nil
	}
	rules, err := rulesOf(c.Auth, maps)
	if err != nil || !rules.Uses(hba.Cert) {
		return nil
	}
	return []string{fmt.Sprintf("hba_file %s has rules of method cert, by which nobody gets in: [tls] has no ca_file with the authority of clients' certificates", c.Auth.HBAFile)}
}
