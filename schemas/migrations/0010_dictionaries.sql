-- What the dictionaries are for, as every table says. The functions have no place for a comment; docs/schema.md has one.
ALTER TABLE ${database}.prefix_history_of ${on_cluster}
    MODIFY COMMENT 'Longest prefix of an address among those of all routing tables in the store; address_info(ip, day) asks it.';

ALTER TABLE ${database}.origin_of ${on_cluster}
    MODIFY COMMENT 'Who announced a prefix of prefix_history_of on a day; address_info(ip, day) asks it.';

ALTER TABLE ${database}.as_of ${on_cluster}
    MODIFY COMMENT 'Who held an AS on a day; as_organisation(asn, day) and address_info(ip, day) ask it.';
