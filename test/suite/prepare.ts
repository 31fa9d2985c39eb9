import { provideEngine } from '../engine/provide-engine.ts';
import { findRedis } from '../stack/redis-server.ts';
import { provideChromium } from '../support/browser/find-chromium.ts';
import { provideExamplesPython } from '../support/documentation/run-examples.ts';
import { provideKeycloak } from '../support/keycloak/start-keycloak.ts';

/** Installs missing programs once, before several test files would do so at the same time. Throws if a test could not run without one. */
export async function prepare(files: readonly string[] = []): Promise<void> {
  await findRedis();
  const ofSome = files.some((file) => file.includes('keycloak')) ? [provideKeycloak] : [];
  const provided = [provideChromium, provideExamplesPython, provideEngine, ...ofSome].map((provide) =>
    provide().catch((error: unknown) => {
      // Tests that need it are reported as skipped.
      if (process.env.CI === 'true') throw error;
      console.error(error instanceof Error ? error.message : error);
    }),
  );
  await Promise.all(provided);
}
