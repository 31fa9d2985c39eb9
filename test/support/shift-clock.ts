/*
 * Loaded into a process before anything else (`--import`): its clock differs from the machine's by CLOCK_SHIFT_MS, and steps by
 * CLOCK_STEP_MS at each SIGUSR2, as a clock that is set. Monotonic time (`performance.now`, timers) is not affected.
 */
const RealDate = Date;
let shiftMs = Number(process.env.CLOCK_SHIFT_MS ?? 0);

class ShiftedDate extends RealDate {
  constructor(...args: [] | [string | number | Date]) {
    if (args.length === 0) super(RealDate.now() + shiftMs);
    else super(...args);
  }

  static override now(): number {
    return RealDate.now() + shiftMs;
  }
}

globalThis.Date = ShiftedDate as DateConstructor; // except dates from parts, which are not used here
process.on('SIGUSR2', () => {
  shiftMs += Number(process.env.CLOCK_STEP_MS ?? 0);
});
