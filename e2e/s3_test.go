package e2e

import (
	"fmt"
	"testing"

	"github.com/boxwright/boxwright/adapters/storage/s3/s3test"
)

// TestFilesInABucket: files of runs are in an S3 store; one that is away is told with the result, which is not lost.
func TestFilesInABucket(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	bucket := s3test.Serve(t)
	s := serve(t, setup{config: fmt.Sprintf(
		"storage: {artifacts: s3, s3: {endpoint: %q, bucket: %s, access_key: %s, secret_key: %s}}\n",
		bucket.Endpoint, s3test.Bucket, s3test.AccessKey, s3test.SecretKey)})
	write := program("open('größe.txt', 'w').write('kept'); open('big', 'wb').write(bytes(3 << 20)); print('done')")
	r := s.run(t, write)
	outcome{stdout: "done\n", files: []string{"big", "größe.txt"}}.check(t, r)
	for _, f := range r.Files {
		if content := s.read(t, f.URI); f.Name == "größe.txt" && string(content) != "kept" || f.Name == "big" && len(content) != 3<<20 {
			t.Errorf("%s has %d bytes", f.Name, len(content))
		}
	}
	bucket.Stop()
	r = s.run(t, write)
	if r.Status != "ok" || r.Stdout != "done\n" || len(r.Files) != 0 || !r.warns("the S3 store") {
		t.Errorf("without a store: %s", r.raw)
	}
	bucket.Start(t)
	outcome{stdout: "done\n", files: []string{"big", "größe.txt"}}.check(t, s.run(t, write))
}
