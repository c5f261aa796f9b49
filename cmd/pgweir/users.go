package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/config"
)

// secrets reads who may come in.
func secrets(a config.Auth) (login.Secrets, error) {
	entries, err := users(a)
	if err != nil {
		return nil, err
	}
	return login.NewBook(entries), nil
}

// users reads the roles of clients and how they prove who they are.
func users(a config.Auth) (map[string]login.Secret, error) {
	switch {
	case a.User != "" && a.Type != config.Trust:
		return map[string]login.Secret{a.User: {Plain: a.Password.Reveal()}}, nil
	case a.File == "":
		return map[string]login.Secret{}, nil
	}
	file, err := os.Open(a.File)
	if err != nil {
		return nil, fmt.Errorf("auth_file: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	list, problems := login.ParseAuthFile(file)
	if len(problems) > 0 {
		errs := make([]error, 0, len(problems))
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("%s: %s", a.File, p))
		}
		return nil, errors.Join(errs...)
	}
	return list, nil
}

// userWarnings says which roles that the configuration counts on can't log in.
func userWarnings(c *config.Config, entries map[string]login.Secret) []string {
	a := c.Auth
	if a.Type == config.Trust || a.File == "" {
		return nil
	}
	var list []string
	missing := func(key string, roles []string) {
		for _, role := range roles {
			if _, ok := entries[role]; !ok {
				list = append(list, fmt.Sprintf("%s has %q, who can't log in: %s has no line for that role", key, role, a.File))
			}
		}
	}
	missing("admin_users", c.Console.AdminUsers)
	missing("stats_users", c.Console.StatsUsers)
	for _, u := range c.Upstreams {
		missing("reserve_users of upstream "+u.Name, u.ReserveUsers)
	}
	if hashed := onlyMD5(entries); a.Type == config.Scram && len(hashed) > 0 {
		list = append(list, fmt.Sprintf(
			`%s has only an md5 hash of %s, and with auth_type = "scram-sha-256" nobody logs in with that: write the password or its SCRAM verifier`,
			a.File, strings.Join(hashed, ", ")))
	}
	return list
}

// onlyMD5 lists the first few roles whose secret is an md5 hash.
func onlyMD5(entries map[string]login.Secret) []string {
	const few = 5
	var roles []string
	for role, s := range entries {
		if s.MD5 != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	if more := len(roles) - few; more > 0 {
		roles = append(roles[:few], fmt.Sprintf("and %d more", more))
	}
	return roles
}
