// Package services starts real services for the tests behind the build tag
// integration: Apache Kafka from its released artefacts, and PostgreSQL from the
// programs on this machine.
//
//  1. A service starts on first use, once per test binary, on the loopback with
//     free ports and a folder of its own.
//  2. It ends with the test binary, however that ends: a supervising shell waits on
//     a pipe that only the test binary holds, and then kills the service and
//     removes its folder.
//  3. A service that cannot be started fails the test that asked for it.
//  4. PEIL_TEST_KAFKA (host:port, comma-separated) and PEIL_TEST_POSTGRES (a URL)
//     name services that run already.
//
// The log of a service is kept until the same test binary starts it again; a test
// that fails says where it is. Everything may be called from several goroutines.
package services
