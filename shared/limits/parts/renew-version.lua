-- A part of the scripts that use a version (load-lua.ts).
if call('PTTL', versionKey) < versionLifeMs / 2 then call('PEXPIRE', versionKey, versionLifeMs) end
