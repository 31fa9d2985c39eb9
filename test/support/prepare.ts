import { findRedis } from '../stack/redis-server.ts';

// Once before all tests: where Redis is missing it is installed here, and not by several test files at the same time.
try {
  await findRedis();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
