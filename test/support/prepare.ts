import { findRedis } from '../stack/redis-server.ts';
import { provideChromium } from './browser/find-chromium.ts';
import { providePython } from './documentation/provide-python.ts';

// Once before all tests: what is missing is installed here, and not by several test files at the same time.
try {
  await findRedis();
  for (const provide of [provideChromium, providePython]) {
    await provide().catch((error: unknown) => {
      // Tests that need it say so themselves, and are skipped where they may be.
      if (process.env.CI === 'true') throw error;
      console.error(error instanceof Error ? error.message : error);
    });
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
