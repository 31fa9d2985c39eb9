import { diag } from '@opentelemetry/api';
import test from 'ava';
import { logDiagnostics } from '../../../shared/tracing/log-diagnostics.ts';
import { recordedLog } from '../../support/recorded-log.ts';

test('warnings of OpenTelemetry are logged, each once a minute, and at most ten', (t) => {
  const { log, lines } = recordedLog();
  let at = 0;
  logDiagnostics({ log, now: () => at });
  diag.info('no warning');
  for (const text of ['one', 'one', 'two']) diag.warn(text, { with: 'a span' });
  diag.error('three');
  at = 59_999;
  diag.warn('one');
  t.deepEqual(
    lines.map(({ level, fields }) => [level, fields]),
    ['one', 'two', 'three'].map((detail) => ['warn', { detail }]),
  );
  at = 60_000;
  for (let index = 0; index < 20; index++) diag.warn(`text ${index}`);
  t.is(lines.length, 3 + 10);
});
