import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import test from 'ava';

const module = new URL('../../../shared/tracing/open-telemetry.ts', import.meta.url).href;

/** The packages of OpenTelemetry that a process loads when it opens its telemetry with this address, and its metrics. */
async function opened(url: string | undefined): Promise<{ packages: string[]; metrics: string }> {
  const script = `
    import { registerHooks } from 'node:module';
    const packages = new Set();
    registerHooks({
      resolve(specifier, context, next) {
        // The library of metrics loads the API, which is small.
        if (specifier.startsWith('@opentelemetry/') && specifier !== '@opentelemetry/api') packages.add(specifier);
        return next(specifier, context);
      },
    });
    const { openTelemetry } = await import(process.argv[1]);
    const tracing = { url: process.argv[2], sampler: 'always_on', samplerRatio: 1, genAi: false };
    const log = { warn() {} };
    const { registry } = await openTelemetry({ config: { tracing }, process: 'ingress', log });
    process.stdout.write(JSON.stringify({ packages: [...packages], metrics: await registry.metrics() }));
  `;
  const args = ['--input-type=module', '-e', script, module, ...(url === undefined ? [] : [url])];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  return JSON.parse(await text(child.stdout)) as Awaited<ReturnType<typeof opened>>; // of the script above
}

test('without an address no package of OpenTelemetry is loaded, and there is no metric of spans', async (t) => {
  const { packages, metrics } = await opened(undefined);
  t.deepEqual(packages, []);
  t.notRegex(metrics, /svc_trace_spans_total/);
  t.regex(metrics, /^svc_build_info\{/m);
});

test('with an address they are loaded, and the metric is there from the start', async (t) => {
  const { packages, metrics } = await opened('http://127.0.0.1:1/v1/traces');
  t.true(packages.includes('@opentelemetry/sdk-trace'));
  for (const result of ['exported', 'failed', 'dropped'])
    t.true(metrics.includes(`svc_trace_spans_total{result="${result}"} 0`), result);
});
