import { type Stage, stateOf } from '../../request-state.ts';

/** Counts a write of an account's own keys or settings. Fails with `rate_limit_exceeded` if there are too many within a minute. */
export type LimitSettingsWrites = (account: string) => Promise<void>;

/** Counts each write of the caller's own keys and settings, before its body is read (contract.md#ho4-what-an-account-creates). */
export function limitSettings({ limitSettingsWrites }: { limitSettingsWrites: LimitSettingsWrites }): Stage {
  return async function limitSettings(ctx, next) {
    await limitSettingsWrites(stateOf(ctx, 'caller').account);
    await next();
  };
}
