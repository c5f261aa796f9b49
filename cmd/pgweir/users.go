package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/login/hba"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/config"
)

// authSettings reads who may come in, and how.
func authSettings(a config.Auth) (plan.Auth, error) {
	out := plan.Auth{
		Method: login.Method(a.Type), OnlyUser: a.User, Query: a.Query, QueryAge: a.QueryAge.Std(),
	}
	var err error
	if out.Book, err = login.OpenBook(a.File, func() (*login.Book, error) { return bookOf(a) }); err != nil {
		return out, err
	}
	if out.Maps, err = identMaps(a); err != nil {
		return out, err
	}
	switch {
	case a.Type == config.HBA:
		out.HBA, err = rulesOf(a, out.Maps)
	case a.IdentFile == "":
	case !out.Maps.Has(string(a.Type)):
		err = fmt.Errorf("ident_file: %s has no map %q, which auth_type = %q uses", a.IdentFile, a.Type, a.Type)
	default:
		out.Map = string(a.Type)
	}
	return out, err
}

// bookOf reads the roles of clients.
func bookOf(a config.Auth) (*login.Book, error) {
	entries, err := users(a)
	if err != nil {
		return nil, err
	}
	book := login.NewBook(entries)
	if a.Query != "" {
		book = book.Open()
	}
	return book, nil
}

// identMaps reads the maps; nil without a file.
func identMaps(a config.Auth) (*hba.Maps, error) {
	if a.IdentFile == "" {
		return nil, nil
	}
	m, problems := hba.LoadMaps(a.IdentFile)
	return m, listed("ident_file", problems)
}

// rulesOf reads the rules of the hba_file.
func rulesOf(a config.Auth, maps *hba.Maps) (*hba.File, error) {
	f, problems := hba.Load(a.HBAFile, maps)
	return f, listed("hba_file", problems)
}

// listed is the problems of a file as one error; nil if there are none.
func listed(key string, problems []hba.Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%s: %s", key, p))
	}
	return errors.Join(errs...)
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
	if a.Type == config.Trust || a.File == "" && a.Query == "" {
		return nil
	}
	var list []string
	missing := func(key string, roles []string) {
		for _, role := range roles {
			if _, ok := entries[role]; !ok {
				why := a.File + " has no line for that role"
				if a.File == "" {
					why = "there is no auth_file, and the console asks nothing of Postgres"
				}
				list = append(list, fmt.Sprintf("%s has %q, who can't log in: %s", key, role, why))
			}
		}
	}
	if a.Type == config.Cert || a.Type == config.Peer {
		return nil
	}
	missing("admin_users", c.Console.AdminUsers)
	missing("stats_users", c.Console.StatsUsers)
	for _, u := range c.Upstreams {
		if a.Query != "" {
			break // Postgres may know them
		}
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
