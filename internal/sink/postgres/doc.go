// Package postgres is the tables in PostgreSQL.
package postgres
