//go:build integration

package services

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clusterID is the same for every cluster of the tests: each has data of its own.
const clusterID = "cGVpbC1pbi1hLXRlc3QtMQ"

// small are the limits of the broker's machine.
var small = []string{"-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"}

var kafka = sync.OnceValues(func() ([]string, error) {
	// The broker lives as long as the test binary, so no test's context fits.
	ctx := context.Background()
	var errs []error
	for range attempts {
		brokers, err := startKafka(ctx)
		if err == nil {
			return brokers, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
})

// Kafka returns the brokers of a Kafka cluster. Topics are not made by being
// written to; names of topics, groups and transactional ids are shared by all tests
// of the binary, so let each test have its own.
func Kafka(tb testing.TB) []string {
	tb.Helper()
	if given := os.Getenv("PEIL_TEST_KAFKA"); given != "" {
		return strings.Split(given, ",")
	}
	brokers, err := kafka()
	if err != nil {
		tb.Fatal(err)
	}
	sayLog(tb, "kafka")
	return brokers
}

func startKafka(ctx context.Context) ([]string, error) {
	java, err := program("java", "a Java runtime, 17 or newer")
	if err != nil {
		return nil, err
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(root, "test", "kafka")
	jars, err := kafkaJars(ctx, config)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "peil-kafka-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Kafka: %w", err)
	}
	properties, err := writeProperties(config, folder, ports[0], ports[1])
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	run := append([]string{java}, small...)
	run = append(run, "-Djava.io.tmpdir="+folder, "-Dlog4j2.configurationFile="+filepath.Join(config, "log4j2.properties"), "-cp", filepath.Join(jars, "*"))
	format := append(append([]string{}, run[1:]...), "kafka.tools.StorageTool", "format", "--standalone", "-t", clusterID, "-c", properties)
	if out, err := exec.CommandContext(ctx, java, format...).CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("format Kafka's storage: %w\n%s", err, out), os.RemoveAll(folder))
	}
	brokers := ports[:1]
	return brokers, start(ctx, service{
		name: "kafka", command: append(run, "kafka.Kafka", properties), signal: "KILL", folder: folder,
		ready: func(ctx context.Context) error { return pingKafka(ctx, brokers) },
	})
}

// writeProperties adds to the settings in test/kafka what differs from one broker
// to the next.
func writeProperties(config, folder, broker, controller string) (string, error) {
	fixed, err := os.ReadFile(filepath.Join(config, "server.properties"))
	if err != nil {
		return "", fmt.Errorf("read Kafka's settings: %w", err)
	}
	path := filepath.Join(folder, "server.properties")
	text := fmt.Sprintf("%s\nlog.dirs=%s\nlisteners=PLAINTEXT://%s,CONTROLLER://%s\ncontroller.quorum.bootstrap.servers=%s\n",
		fixed, filepath.Join(folder, "data"), broker, controller, controller)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write Kafka's settings: %w", err)
	}
	return path, nil
}

func pingKafka(ctx context.Context, brokers []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RetryTimeout(0), kgo.RequestRetries(0))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer client.Close()
	return client.Ping(ctx)
}

// kafkaJars returns the folder of Kafka's jars. They are fetched once for each
// content of the pom, by whichever test binary comes first; the others wait.
func kafkaJars(ctx context.Context, config string) (_ string, err error) {
	pom := filepath.Join(config, "pom.xml")
	text, err := os.ReadFile(pom)
	if err != nil {
		return "", fmt.Errorf("read the list of Kafka's jars: %w", err)
	}
	target := filepath.Join(config, "target")
	jars := filepath.Join(target, fmt.Sprintf("jars-%x", sha256.Sum256(text))[:13])
	if err := os.MkdirAll(target, 0o755); err != nil {
		return "", fmt.Errorf("make a folder for Kafka's jars: %w", err)
	}
	lock, err := os.Create(filepath.Join(target, "lock"))
	if err != nil {
		return "", fmt.Errorf("open the lock of Kafka's jars: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // this unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the folder of Kafka's jars: %w", err)
	}
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}
	mvn, err := program("mvn", "Maven")
	if err != nil {
		return "", err
	}
	part := jars + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", fmt.Errorf("remove half a set of jars: %w", err)
	}
	out, err := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+part).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("fetch Kafka's jars with Maven: %w\n%s", err, out)
	}
	if err := os.Rename(part, jars); err != nil {
		return "", fmt.Errorf("keep Kafka's jars: %w", err)
	}
	return jars, nil
}

// moduleRoot is the folder of go.mod: a test runs in the folder of its package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the module: there is no go.mod above this folder")
		}
		dir = parent
	}
}
