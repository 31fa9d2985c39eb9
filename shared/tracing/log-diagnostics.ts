import { DiagLogLevel, diag } from '@opentelemetry/api';
import type { Log } from '../process/log.ts';

const periodMs = 60_000;
const textsPerPeriodMax = 10;

/**
 * Logs what OpenTelemetry's packages warn about, such as a variable that they cannot read. Some warn for each span, so each text is logged
 * once a minute. Further arguments are left out: they can hold a span.
 */
export function logDiagnostics(deps: { log: Pick<Log, 'warn'>; now?: () => number }): void {
  const { log, now = () => performance.now() } = deps;
  const texts = new Set<string>();
  let since = now();

  function warn(text: string): void {
    if (now() - since >= periodMs) {
      texts.clear();
      since = now();
    }
    if (texts.has(text) || texts.size >= textsPerPeriodMax) return;
    texts.add(text);
    log.warn({ detail: text }, 'a warning of OpenTelemetry');
  }

  const ignore = () => {};
  const logger = { error: warn, warn, info: ignore, debug: ignore, verbose: ignore };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
}
