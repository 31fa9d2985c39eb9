type Declare = (title: string, implementation: (t: { fail: (message: string) => void }) => Promise<void>) => void;
type Skippable = Declare & { skip: Declare };

/** Declares a test that cannot run here. It is reported as skipped, with its reason on standard error; with CI=true it fails. */
export function skipTest(test: Skippable, { title, reason }: { title: string; reason: string }): void {
  if (process.env.CI === 'true') {
    test(title, async (t) => t.fail(`it must run if CI=true: ${reason}`));
    return;
  }
  // Written here because a skipped test has no log.
  console.error(`\n*** SKIPPED: ${title}: ${reason}\n`);
  test.skip(title, async () => {});
}
