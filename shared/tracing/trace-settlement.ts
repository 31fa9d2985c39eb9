import type { SettleAnswer } from '../limits/settle.ts';
import { type Span, traced } from './span.ts';

/** Settles as a part of the run. `outcome` is that of the request. */
export function traceSettlement(
  run: Span | undefined,
  outcome: string,
  settle: () => Promise<SettleAnswer>,
): Promise<SettleAnswer> {
  return traced(run, { name: 'settle', attributes: { 'svc.outcome': outcome } }, async (span) => {
    const settled = await settle();
    span?.set({ 'svc.settled': settled });
    return settled;
  });
}
