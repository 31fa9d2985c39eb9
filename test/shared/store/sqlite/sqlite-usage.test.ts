import test from 'ava';
import { testFindRecordsContract } from '../find-records-contract.ts';
import { createSqliteHome } from '../sqlite-home.ts';
import { testUsageContract } from '../usage-contract.ts';
import { testUsageHoursContract } from '../usage-hours-contract.ts';
import { testUsageRacesContract } from '../usage-races-contract.ts';
import { testUsageReadsContract } from '../usage-reads-contract.ts';

testUsageContract({ test, createHome: createSqliteHome });
testUsageHoursContract({ test, createHome: createSqliteHome });
testFindRecordsContract({ test, createHome: createSqliteHome });
testUsageReadsContract({ test, createHome: createSqliteHome });
testUsageRacesContract({ test: test.serial, createHome: createSqliteHome });
